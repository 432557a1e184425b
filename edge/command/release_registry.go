package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"partneredge/edge/release"
)

// originRegistry is the registry of the origin, below its admin API.
func originRegistry(admin *adminClient) (*remote.Repository, error) {
	at, err := url.Parse(admin.url)
	if err != nil {
		return nil, fmt.Errorf("finding the origin's registry: %w", err)
	}
	r, err := remote.NewRepository(at.Host + "/releases")
	if err != nil {
		return nil, fmt.Errorf("finding the origin's registry: %w", err)
	}
	r.PlainHTTP = at.Scheme == "http"
	r.Client = &auth.Client{
		Client: http.DefaultClient, Cache: auth.NewCache(),
		Credential: auth.StaticCredential(at.Host, auth.Credential{Username: "edge", Password: admin.token}),
	}
	return r, nil
}

func runPush(ctx context.Context, o *operators) error {
	if err := o.required("version"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "edge-release-")
	if err != nil {
		return fmt.Errorf("packing: %w", err)
	}
	defer os.RemoveAll(dir)
	layout, err := oci.NewWithContext(ctx, dir)
	if err != nil {
		return fmt.Errorf("packing: %w", err)
	}
	digest, err := o.pack(ctx, layout)
	if err != nil {
		return err
	}
	if _, err := o.sign(ctx, layout, digest); err != nil {
		return err
	}
	return o.give(ctx, layout, digest)
}

func runPull(ctx context.Context, o *operators) error {
	if err := o.required("from"); err != nil {
		return err
	}
	var from oras.ReadOnlyGraphTarget
	if _, err := os.Stat(filepath.Join(o.value("from"), "oci-layout")); err == nil {
		if from, err = openLayout(ctx, o.value("from")); err != nil {
			return err
		}
	} else {
		r, err := remote.NewRepository(o.value("from"))
		if err != nil {
			return usagef("such as registry.example.com/edge/releases, or a folder with an OCI layout", "%s: --from %q is neither a repository nor a layout", o.Name(), o.value("from"))
		}
		r.PlainHTTP = flagValue[bool](o, "plain-http")
		r.Client = &auth.Client{Client: http.DefaultClient, Cache: auth.NewCache(), Credential: auth.StaticCredential(r.Reference.Registry, auth.Credential{
			Username: os.Getenv("EDGE_REGISTRY_USER"), Password: os.Getenv("EDGE_REGISTRY_PASSWORD"),
		})}
		from = r
	}
	digest, err := resolve(ctx, from, o.args[0])
	if err != nil {
		return err
	}
	return o.give(ctx, from, digest)
}

// signaturesOf finds what is copied of all that refers to a release. The filter
// of oras takes an image manifest for what its config is.
func signaturesOf(ctx context.Context, from content.ReadOnlyGraphStorage, d ocispec.Descriptor) (signatures []ocispec.Descriptor, err error) {
	if d.ArtifactType != release.ArtifactType {
		return nil, nil
	}
	referrers, err := from.Predecessors(ctx, d)
	if err != nil {
		return nil, err
	}
	for _, one := range referrers {
		if one.Size > release.MaxManifest || one.ArtifactType != "" && one.ArtifactType != release.SignatureType {
			continue
		}
		manifest, err := content.FetchAll(ctx, from, one)
		if err != nil {
			return nil, err
		}
		if a, err := release.Describe(manifest); err == nil && a.Type == release.SignatureType {
			one.ArtifactType = a.Type
			signatures = append(signatures, one)
		}
	}
	return signatures, nil
}

// give copies a release with its signatures to the origin, which makes a release
// of it.
func (o *operators) give(ctx context.Context, from oras.ReadOnlyGraphTarget, digest string) error {
	manifest, err := release.OCI(from).Manifest(ctx, digest)
	if err != nil {
		return releaseHint(fmt.Errorf("reading release %s: %w", digest, err))
	}
	artifact, err := release.Describe(manifest)
	if err == nil && artifact.Type != release.ArtifactType {
		err = release.ErrMalformed
	}
	if err != nil {
		return releaseHint(fmt.Errorf("reading release %s: %w", digest, err))
	}
	to, err := originRegistry(o.admin)
	if err != nil {
		return err
	}
	bar := newTransfer(o.stderr, append(artifact.Parts, ocispec.Descriptor{Size: int64(len(manifest))}))
	options := oras.ExtendedCopyGraphOptions{FindPredecessors: signaturesOf, CopyGraphOptions: oras.CopyGraphOptions{
		PostCopy: bar.copied, OnCopySkipped: bar.copied, MaxMetadataBytes: 2 * release.MaxManifest,
	}}
	root := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, manifest)
	root.ArtifactType = artifact.Type
	err = oras.ExtendedCopyGraph(ctx, from, to, root, options)
	bar.end()
	if err != nil {
		return registryHint(fmt.Errorf("copying release %s to the origin: %w", digest, err))
	}
	var raw json.RawMessage
	if err := o.admin.call(ctx, http.MethodPost, "/releases", map[string]string{"digest": digest}, &raw); err != nil {
		return err
	}
	var made struct{ Version string }
	if err := json.Unmarshal(raw, &made); err != nil {
		return err
	}
	if err := to.Tag(ctx, root, made.Version); err != nil {
		return registryHint(fmt.Errorf("tagging release %s: %w", made.Version, err))
	}
	return o.showRelease(raw)
}

// registryHint says what to do about a registry's refusals.
func registryHint(err error) error {
	refused, ok := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return hint(err, "is the tag, or the digest, right?")
	case !ok:
		return err
	case refused.StatusCode == http.StatusUnauthorized:
		return hint(err, "the origin's registry takes an admin token, others $EDGE_REGISTRY_USER and $EDGE_REGISTRY_PASSWORD")
	case refused.StatusCode == http.StatusForbidden:
		return hint(err, "pushing to the origin needs the role operator (edge token create --role operator)")
	}
	return hint(err, "the registry takes releases and their signatures, and nothing else")
}

// transfer shows how much of a release has been copied, where the output is a
// terminal.
type transfer struct{ bar *progressbar.ProgressBar }

func newTransfer(out io.Writer, parts []ocispec.Descriptor) transfer {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return transfer{}
	}
	var sum int64
	for _, p := range parts {
		sum += p.Size
	}
	return transfer{progressbar.NewOptions64(sum, progressbar.OptionSetWriter(out), progressbar.OptionSetDescription("copying"),
		progressbar.OptionShowBytes(true), progressbar.OptionSetWidth(30), progressbar.OptionThrottle(50*time.Millisecond), progressbar.OptionClearOnFinish())}
}

func (t transfer) copied(_ context.Context, d ocispec.Descriptor) error {
	if t.bar != nil {
		_ = t.bar.Add64(d.Size) // signatures are beyond the sum; it is only a picture
	}
	return nil
}

func (t transfer) end() {
	if t.bar != nil {
		_ = t.bar.Finish()
	}
}
