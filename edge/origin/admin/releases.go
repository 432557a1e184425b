package admin

import (
	"errors"
	"net/http"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/registry"
	"partneredge/edge/release"
	"partneredge/store"
)

// createRelease notes what was pushed to the registry as a release that nodes can
// be told to run. The origin holds no keys and judges no signature, which is the
// nodes' to do; that there is one it asks, since no node would run the rest.
func (a *api) createRelease(r *http.Request) (answer, error) {
	var in adminapi.NewRelease
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	reference := in.Reference
	if reference == nil {
		reference = in.Digest
	}
	if reference == nil || in.Digest != nil && in.Reference != nil {
		return answer{}, &problem{Kind: "invalid_release", Reason: "digest_required", Detail: "give either digest or reference"}
	}
	if in.Digest != nil && release.CheckDigest(*in.Digest) != nil {
		return answer{}, &problem{Kind: "invalid_release", Reason: "digest_invalid", Detail: "digest must be sha256: and 64 hexadecimal digits"}
	}
	manifest, err := a.DB.Manifest(r.Context(), *reference)
	if err != nil {
		return answer{}, err
	}
	read, err := release.Inspect(r.Context(), registry.Source(a.DB), manifest.Digest)
	if err == nil && len(read.Signers) == 0 {
		err = release.ErrUnsigned
	}
	if err != nil {
		return answer{}, releaseProblem(err)
	}
	noted := store.Release{Version: read.Version, Digest: read.Digest, Size: read.Size()}
	for _, m := range read.Modules {
		noted.Modules = append(noted.Modules, store.ReleaseModule{Name: m.Name, Size: int64(len(m.Wasm))})
	}
	for _, s := range read.Signers {
		noted.Signers = append(noted.Signers, store.ReleaseSigner(s))
	}
	noted, added, err := a.DB.AddRelease(r.Context(), noted)
	if err != nil {
		return answer{}, err
	}
	return createdIf(added, toRelease(noted))
}

// releaseProblem says why what is in the registry is no release.
func releaseProblem(err error) error {
	for kind, reason := range map[error]string{
		release.ErrUnsigned: "unsigned", release.ErrMalformed: "malformed", release.ErrTampered: "tampered",
		release.ErrTruncated: "truncated", release.ErrNotFound: "part_missing",
	} {
		if errors.Is(err, kind) {
			return &problem{Kind: "invalid_release", Reason: reason, Detail: kind.Error()}
		}
	}
	return err
}

func (a *api) listReleases(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Release, string, error) {
		return a.DB.Releases(r.Context(), p)
	}, toRelease)
}

func (a *api) getRelease(r *http.Request) (answer, error) {
	found, err := a.DB.Release(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(toRelease(found))
}
