package origin

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"aead.dev/minisign"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"partneredge/edge/origin/registry"
	"partneredge/edge/release"
	centralregistry "partneredge/store/central/registry"
)

// attach attaches a text to the release of a descriptor as a signature.
func attach(t *testing.T, to oras.Target, subject ocispec.Descriptor, text []byte) error {
	t.Helper()
	layer := content.NewDescriptorFromBytes(release.SignatureType, text)
	if err := to.Push(t.Context(), layer, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	_, err := oras.PackManifest(t.Context(), to, oras.PackManifestVersion1_1, release.SignatureType,
		oras.PackManifestOptions{Subject: &subject, Layers: []ocispec.Descriptor{layer}})
	return err
}

// foreignSignature signs nothing, by a key that nobody trusts.
func foreignSignature(t *testing.T, comment string) []byte {
	t.Helper()
	_, key, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return minisign.NewReader(strings.NewReader("")).SignWithComments(key, comment, "")
}

// alsoRefers answers that a manifest refers to a release, whatever it says itself.
type alsoRefers struct {
	*oci.Store
	to, manifest ocispec.Descriptor
}

func (s alsoRefers) Predecessors(ctx context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	all, err := s.Store.Predecessors(ctx, d)
	if d.Digest == s.to.Digest {
		all = append(all, s.manifest)
	}
	return all, err
}

// TestForeignSignaturesStayBehind: a release is copied with the signatures that the origin takes,
// whatever else others have attached to it at the source.
func TestForeignSignaturesStayBehind(t *testing.T) {
	t.Parallel()
	b := newPacker(newFixture(t))
	first, other := b.pack("1.4.0"), b.pack("1.5.0")
	b.sign(first)
	b.sign(other)
	ofOther, err := b.Predecessors(t.Context(), other)
	if err != nil || len(ofOther) != 1 {
		t.Fatalf("the signatures of the other are %v, %v", ofOther, err)
	}
	wrongSize := first
	wrongSize.Size++
	for _, tt := range []struct {
		subject ocispec.Descriptor
		text    []byte
	}{
		{first, []byte("no signature")},
		{first, foreignSignature(t, "timestamp:1790000000\tfile:manifest.json\thashed")},
		{first, foreignSignature(t, "partneredge release 1.4.0 "+string(other.Digest))},
		{wrongSize, foreignSignature(t, "partneredge release 1.4.0 "+string(first.Digest))},
	} {
		if err := attach(t, b.Store, tt.subject, tt.text); err != nil {
			t.Fatal(err)
		}
	}
	gone := []byte("a text that is lost")
	if err := attach(t, b.Store, first, gone); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), content.NewDescriptorFromBytes(release.SignatureType, gone)); err != nil {
		t.Fatal(err)
	}
	for range release.MaxSignatures {
		if err := attach(t, b.Store, other, foreignSignature(t, "partneredge release 1.5.0 "+string(other.Digest))); err != nil {
			t.Fatal(err)
		}
	}
	repository := b.repository(b.Token())
	pull := func(d ocispec.Descriptor) (leftOut int, err error) {
		_, leftOut, err = release.Copy(t.Context(), alsoRefers{b.Store, first, ofOther[0]}, repository, string(d.Digest), func(int64) func(int64) { return func(int64) {} })
		return leftOut, err
	}
	if n, err := pull(first); err != nil || n != 6 {
		t.Errorf("%d were left out, not 6, %v", n, err)
	}
	var came []ocispec.Descriptor
	if err := repository.Referrers(t.Context(), first, "", func(some []ocispec.Descriptor) error { came = append(came, some...); return nil }); err != nil || len(came) != 1 {
		t.Errorf("%d signatures came along, not one, %v", len(came), err)
	}
	// The origin keeps any 16 of 17, whatever keys made them: of 16 it has each, and more are refused.
	for n := range release.MaxSignatures {
		if n > 0 {
			if err := attach(t, b.Store, first, foreignSignature(t, "partneredge release 1.4.0 "+string(first.Digest))); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := pull(first); err != nil {
			t.Errorf("with %d signatures: %v", n+1, err)
		}
	}
	if err := attach(t, b.Store, first, foreignSignature(t, "partneredge release 1.4.0 "+string(first.Digest))); err != nil {
		t.Fatal(err)
	}
	for _, d := range []ocispec.Descriptor{first, other} {
		if _, err := pull(d); err == nil || !strings.Contains(err.Error(), "17 signatures name it") {
			t.Errorf("with 17 signatures: %v", err)
		}
	}
	policy := release.Policy{Keys: []minisign.PublicKey{b.public}, Min: "1.0.0"}
	if _, err := release.Open(t.Context(), registry.Source(b.config.DB), string(first.Digest), policy); err != nil {
		t.Error(err)
	}
}

// TestForeignSignaturesHideNone: whoever may push signatures adds as many as the registry takes,
// and the one that a trusted key made before is still found.
func TestForeignSignaturesHideNone(t *testing.T) {
	t.Parallel()
	if release.MaxSignatures != centralregistry.ReferrersMost {
		t.Fatalf("of %d signatures that are kept %d are read", centralregistry.ReferrersMost, release.MaxSignatures)
	}
	b, d, policy := pushSigned(t)
	repository := b.repository(b.Token())
	attach := func(text []byte) error { return attach(t, repository, d, text) }
	foreign := func(comment string) []byte { return foreignSignature(t, comment) }
	for text, want := range map[string]string{
		"no signature": "the signature cannot be read",
		string(foreign("partneredge release 1.4.0 sha256:" + strings.Repeat("0", 64))): "does not name release " + string(d.Digest),
	} {
		if err := attach([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("attaching %.20q: %v, want %q", text, err, want)
		}
	}
	for n := range release.MaxSignatures {
		err := attach(foreign("partneredge release 1.4.0 " + string(d.Digest)))
		if full := n == release.MaxSignatures-1; full != (err != nil) || full && !strings.Contains(err.Error(), "has 16 other signatures already") {
			t.Fatalf("attaching number %d: %v", n, err)
		}
	}
	b.push("1.4.0") // changes nothing
	if _, err := release.Open(t.Context(), registry.Source(b.config.DB), string(d.Digest), policy); err != nil {
		t.Error(err)
	}
}
