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
func (a *api) createRelease(r *http.Request, in adminapi.NewRelease, v *validator) (answer, error) {
	reference := in.Reference
	if reference == nil {
		reference = in.Digest
	}
	if reference == nil || in.Digest != nil && in.Reference != nil {
		v.fail("digest", "required", "give either digest or reference")
	} else if in.Digest != nil && release.CheckDigest(*in.Digest) != nil {
		v.fail("digest", "invalid", "digest must be sha256: and 64 hexadecimal digits")
	}
	if err := v.err(); err != nil {
		return answer{}, err
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
	return createdIf(added, toRelease(noted), err)
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
