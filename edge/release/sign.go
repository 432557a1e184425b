package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"aead.dev/minisign"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// Signer identifies the signer of a release.
type Signer struct {
	KeyID   string // 16 hexadecimal digits, as minisign writes them
	Comment string // trusted comment
}

// trustedComment returns the trusted comment of a signature. People read in it what
// was signed, and it prevents a manifest signed as something else from being taken
// for a release.
func trustedComment(version, digest string) string {
	return "partneredge release " + version + " " + digest
}

// commentVersion returns the version in the trusted comment of the release with a
// digest.
func commentVersion(comment, digest string) (version string, found bool) {
	rest, found := strings.CutPrefix(comment, "partneredge release ")
	if !found {
		return "", false
	}
	version, named, _ := strings.Cut(rest, " ")
	return version, named == digest && CheckVersion(version) == nil
}

// readSignature parses a signature in minisign's format.
func readSignature(text []byte) (s minisign.Signature, err error) {
	if len(text) > MaxSignature {
		return s, fmt.Errorf("a signature of %d bytes", len(text))
	}
	if bytes.ContainsRune(text, 0) {
		return s, errors.New("no text")
	}
	return s, s.UnmarshalText(text)
}

// CheckSignature returns an error unless text is a signature in minisign's format whose
// trusted comment names the release of a digest. Whose it is, and whether it is valid, it
// does not say.
func CheckSignature(text []byte, digest string) error {
	s, err := readSignature(text)
	if err != nil {
		return fmt.Errorf("the signature cannot be read: %w", err)
	}
	if _, names := commentVersion(s.TrustedComment, digest); !names {
		return fmt.Errorf("the signature's trusted comment does not name release %s", digest)
	}
	return nil
}

// judge finds the valid signatures by keys of the policy and returns the version in
// the first of them, which must not be lower than Min. One valid signature is
// enough, whatever the others are.
func (p Policy) judge(r *Release) (version string, err error) {
	if len(r.signatures) == 0 {
		return "", ErrUnsigned
	}
	readable, known := false, false
	for _, text := range r.signatures {
		s, err := readSignature(text)
		if err != nil {
			continue
		}
		readable = true
		for _, key := range p.Keys {
			if key.ID() != s.KeyID {
				continue
			}
			known = true
			signed, valid := commentVersion(s.TrustedComment, r.Digest)
			if !valid || !minisign.Verify(key, r.manifest, text) {
				continue
			}
			if version == "" {
				version = signed
			}
			r.Signers = append(r.Signers, signerOf(s))
		}
	}
	switch {
	case version != "" && p.Min != "" && compareVersions(version, p.Min) < 0:
		return "", fmt.Errorf("%w: %s is older than %s", ErrDowngrade, version, p.Min)
	case version != "":
		return version, nil
	case known:
		return "", fmt.Errorf("%w: its signature is not that of its manifest", ErrTampered)
	case readable:
		return "", ErrWrongKey
	default:
		return "", fmt.Errorf("%w: its signature cannot be read", ErrTampered)
	}
}

// claimed returns the signers that the signatures name, verified or not.
func (r *Release) claimed() (all []Signer) {
	for _, text := range r.signatures {
		if s, err := readSignature(text); err == nil {
			all = append(all, signerOf(s))
		}
	}
	return all
}

func signerOf(s minisign.Signature) Signer {
	return Signer{KeyID(s.KeyID), s.TrustedComment}
}

// KeyID is the id of a key as minisign writes it.
func KeyID(id uint64) string { return fmt.Sprintf("%016X", id) }

// Sign signs the release that a digest names in target, and attaches the
// signature.
func Sign(ctx context.Context, target oras.GraphTarget, name string, key minisign.PrivateKey) (Signer, error) {
	r, err := Inspect(ctx, OCI(target), name)
	if err != nil {
		return Signer{}, fmt.Errorf("signing: %w", err)
	}
	message := minisign.NewReader(bytes.NewReader(r.manifest))
	if _, err := io.Copy(io.Discard, message); err != nil {
		return Signer{}, fmt.Errorf("signing release %s: %w", name, err)
	}
	signer := Signer{KeyID(key.ID()), trustedComment(r.Version, r.Digest)}
	signature := message.SignWithComments(key, signer.Comment, "signature of a release, by key "+signer.KeyID)
	if err := attach(ctx, target, r.descriptor, signature); err != nil {
		return Signer{}, fmt.Errorf("signing release %s: %w", name, err)
	}
	return signer, nil
}

// created is the time of creation in every manifest. It is fixed so that the same
// content has the same digest.
var created = map[string]string{ocispec.AnnotationCreated: "1970-01-01T00:00:00Z"}

// attach pushes a signature of the release to target.
func attach(ctx context.Context, target content.Pusher, release ocispec.Descriptor, signature []byte) error {
	layer := content.NewDescriptorFromBytes(SignatureType, signature)
	if err := push(ctx, target, layer, signature); err != nil {
		return err
	}
	subject := ocispec.Descriptor{MediaType: release.MediaType, Digest: release.Digest, Size: release.Size}
	_, err := oras.PackManifest(ctx, target, oras.PackManifestVersion1_1, SignatureType, oras.PackManifestOptions{
		Subject: &subject, Layers: []ocispec.Descriptor{layer}, ManifestAnnotations: created,
	})
	return ignoreExisting(err)
}

// push pushes content to target unless it is there already.
func push(ctx context.Context, target content.Pusher, d ocispec.Descriptor, text []byte) error {
	return ignoreExisting(target.Push(ctx, d, bytes.NewReader(text)))
}

// ignoreExisting returns err, or nil if it says that the content is there already.
func ignoreExisting(err error) error {
	if errors.Is(err, errdef.ErrAlreadyExists) {
		return nil
	}
	return err
}
