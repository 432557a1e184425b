package release

import (
	"context"
	"fmt"

	"aead.dev/minisign"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Source provides the content of releases. It is not trusted. Its errors are passed
// on; the error for missing content must be ErrNotFound.
type Source interface {
	// Manifest returns the OCI manifest with a digest, at most MaxManifest bytes of
	// it.
	Manifest(ctx context.Context, digest string) ([]byte, error)
	// Blob returns a blob, at most d.Size bytes of it.
	Blob(ctx context.Context, d ocispec.Descriptor) ([]byte, error)
	// Signatures returns minisign's signatures of the manifest with a digest: at most
	// MaxSignatures, and of each at most MaxSignature bytes.
	Signatures(ctx context.Context, digest string) ([][]byte, error)
}

// Policy decides which releases may run.
type Policy struct {
	// Keys are the trusted keys, one of which must have signed. Without any, no
	// release may run.
	Keys []minisign.PublicKey
	// Min is the lowest version; "" means any.
	Min string
}

// Open reads the release with a digest and verifies all of it.
func Open(ctx context.Context, src Source, name string, p Policy) (*Release, error) {
	r, err := begin(ctx, src, name)
	if err != nil {
		return nil, fmt.Errorf("opening release %s: %w", name, err)
	}
	signed, err := p.judge(r)
	if err == nil {
		err = r.outline(ctx, src)
	}
	if err == nil {
		err = r.fill(ctx, src)
	}
	if err == nil && r.Version != signed {
		err = fmt.Errorf("%w: version %s was signed as %s", ErrTampered, r.Version, signed)
	}
	if err != nil {
		return nil, fmt.Errorf("opening release %s: %w", name, err)
	}
	return r, nil
}

// Inspect reads the release with a digest without checking its signatures. It only
// verifies that the content has that digest.
func Inspect(ctx context.Context, src Source, name string) (*Release, error) {
	r, err := Outline(ctx, src, name)
	if err != nil {
		return nil, err
	}
	if err := r.fill(ctx, src); err != nil {
		return nil, fmt.Errorf("reading release %s: %w", name, err)
	}
	return r, nil
}

// Outline is Inspect without the modules' code: Module.Wasm is nil, and has the size and
// the digest that the manifest names.
func Outline(ctx context.Context, src Source, name string) (*Release, error) {
	r, err := begin(ctx, src, name)
	if err == nil {
		r.Signers = r.claimed()
		err = r.outline(ctx, src)
	}
	if err != nil {
		return nil, fmt.Errorf("reading release %s: %w", name, err)
	}
	return r, nil
}

// begin reads the manifest, unparsed, and the signatures.
func begin(ctx context.Context, src Source, name string) (*Release, error) {
	if err := CheckDigest(name); err != nil {
		return nil, err
	}
	r := &Release{Digest: name}
	var err error
	if r.manifest, err = src.Manifest(ctx, name); err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	if err := hasDigest(r.manifest, name); err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	if r.signatures, err = src.Signatures(ctx, name); err != nil {
		return nil, fmt.Errorf("its signatures: %w", err)
	}
	r.signatures = r.signatures[:min(len(r.signatures), MaxSignatures)]
	return r, nil
}

// fill reads the modules' code, after outline.
func (r *Release) fill(ctx context.Context, src Source) error {
	for i := range r.Modules {
		m := &r.Modules[i]
		var err error
		if m.Wasm, err = verified(ctx, src, m.wasm); err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
		if err := checkModule(m.Name, m.Wasm, m.Manifest); err != nil {
			return err
		}
	}
	return nil
}

// outline parses the manifest and reads all blobs but the modules' code.
func (r *Release) outline(ctx context.Context, src Source) error {
	m, err := readManifest(r.manifest)
	if err != nil {
		return err
	}
	r.descriptor = ocispec.Descriptor{
		MediaType: m.MediaType, ArtifactType: m.ArtifactType, Digest: digest.Digest(r.Digest), Size: int64(len(r.manifest)),
	}
	text, err := verified(ctx, src, m.Config)
	if err != nil {
		return fmt.Errorf("its config: %w", err)
	}
	r.config = blob{m.Config, text}
	c, err := readConfig(text, len(m.Layers)/2)
	if err != nil {
		return err
	}
	r.Version = c.Version
	for i, name := range c.Modules {
		one := Module{Name: name, wasm: m.Layers[2*i], described: m.Layers[2*i+1]}
		if one.Manifest, err = verified(ctx, src, one.described); err != nil {
			return fmt.Errorf("the manifest of module %s: %w", name, err)
		}
		r.Modules = append(r.Modules, one)
	}
	return nil
}

// verified reads a blob and checks its digest and size.
func verified(ctx context.Context, src Source, d ocispec.Descriptor) ([]byte, error) {
	text, err := src.Blob(ctx, d)
	if err != nil {
		return nil, err
	}
	if int64(len(text)) < d.Size {
		return nil, fmt.Errorf("%w: %d bytes of %d", ErrTruncated, len(text), d.Size)
	}
	return text, hasDigest(text, string(d.Digest))
}

func hasDigest(text []byte, want string) error {
	if got := digest.FromBytes(text).String(); got != want {
		return fmt.Errorf("%w: its digest is %s", ErrTampered, got)
	}
	return nil
}
