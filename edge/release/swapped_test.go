package release

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// TestSignatureMustNameTheRelease attaches, to a release of its own each, one
// signature of the right manifest by the right key whose comment names another
// release or version.
func TestSignatureMustNameTheRelease(t *testing.T) {
	key := newPair(t)
	other := "sha256:" + strings.Repeat("5e", 32)
	for name, comment := range map[string]func(own string) string{
		"no comment":            func(string) string { return "" },
		"a file's comment":      func(string) string { return "file:manifest.json" },
		"another version":       func(own string) string { return trustedComment("1.3.0", own) },
		"another digest":        func(string) string { return trustedComment("1.4.0", other) },
		"no digest":             func(string) string { return trustedComment("1.4.0", "") },
		"a longer digest":       func(own string) string { return trustedComment("1.4.0", own+"0") },
		"no version":            func(own string) string { return trustedComment("latest", own) },
		"another kind of thing": func(own string) string { return strings.Replace(trustedComment("1.4.0", own), "release", "module", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newLayout(t)
			release := s.pack("1.4.0")
			subject, err := s.Resolve(t.Context(), release)
			if err != nil {
				t.Fatal(err)
			}
			if err := attach(t.Context(), s, subject, signatureSaying(s, release, key, comment(release))); err != nil {
				t.Fatal(err)
			}
			_, err = Open(t.Context(), OCI(s), release, trusting(key))
			wants(t, err, ErrTampered)
		})
	}
}

// swapped is a source that answers with the content of another release.
type swapped struct {
	Source
	digest string
}

func (s swapped) Manifest(ctx context.Context, _ string) ([]byte, error) {
	return s.Source.Manifest(ctx, s.digest)
}

// TestInspectRefusesASwappedManifest: Inspect checks no signatures, so nothing but
// the digest ties what it shows to the name that it was given.
func TestInspectRefusesASwappedManifest(t *testing.T) {
	s := newLayout(t)
	asked, given := s.pack("1.4.0"), s.pack("9.9.9")
	r, err := Inspect(t.Context(), swapped{OCI(s), given}, asked)
	wants(t, err, ErrTampered)
	if r != nil {
		t.Errorf("inspected %v", r)
	}
	if _, err := Inspect(t.Context(), OCI(s), strings.TrimPrefix(asked, "sha256:")); err == nil {
		t.Error("a name that is no digest is inspected")
	}
}

// manySignatures is a source that answers with signatures of its own.
type manySignatures struct {
	Source
	all [][]byte
}

func (s manySignatures) Signatures(context.Context, string) ([][]byte, error) { return s.all, nil }

// TestSignaturesAreBounded counts a valid signature as the last that may be there,
// and not behind it: a source cannot have a node verify as many as it likes.
func TestSignaturesAreBounded(t *testing.T) {
	key, other := newPair(t), newPair(t)
	s := newLayout(t)
	name := s.pack("1.4.0")
	valid := signatureSaying(s, name, key, trustedComment("1.4.0", name))
	foreign := signatureSaying(s, name, other, trustedComment("1.4.0", name))
	behind := func(n int) error {
		all := append(make([][]byte, 0, n+1), bytesTimes(foreign, n)...)
		_, err := Open(t.Context(), manySignatures{OCI(s), append(all, valid)}, name, trusting(key))
		return err
	}
	wants(t, behind(MaxSignatures-1), nil)
	wants(t, behind(MaxSignatures), ErrWrongKey)

	r, err := Inspect(t.Context(), manySignatures{OCI(s), bytesTimes(foreign, MaxSignatures+1)}, name)
	if err != nil || len(r.Signers) != MaxSignatures {
		t.Errorf("%v, %v", r, err)
	}
}

// TestStoredSignaturesAreBounded attaches one signature more than a release may
// have.
func TestStoredSignaturesAreBounded(t *testing.T) {
	key := newPair(t)
	s := newLayout(t)
	name := s.pack("1.4.0")
	subject, err := s.Resolve(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range MaxSignatures + 1 {
		if err := attach(t.Context(), s, subject, signatureSaying(s, name, key, "number "+strconv.Itoa(n))); err != nil {
			t.Fatal(err)
		}
	}
	all, err := OCI(s).Signatures(t.Context(), name)
	if err != nil || len(all) != MaxSignatures {
		t.Errorf("%d signatures, %v", len(all), err)
	}
}

func bytesTimes(one []byte, n int) (all [][]byte) {
	for range n {
		all = append(all, bytes.Clone(one))
	}
	return all
}

// short is a source that sends less, or more, than a blob has.
type short struct {
	Source
	by int
}

func (s short) Blob(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	text, err := s.Source.Blob(ctx, d)
	if s.by > 0 {
		return text[:len(text)-s.by], err
	}
	return append(text, 'x'), err
}

// TestInspectRefusesAnotherSize checks that a blob has the size and the digest that
// the manifest says.
func TestInspectRefusesAnotherSize(t *testing.T) {
	s := newLayout(t)
	name := s.pack("1.4.0")
	for by, want := range map[int]error{1: ErrTruncated, -1: ErrTampered} {
		if r, err := Inspect(t.Context(), short{OCI(s), by}, name); !errors.Is(err, want) || r != nil {
			t.Errorf("%d bytes less: %v, %v, want %v", by, r, err, want)
		}
	}
}

// TestSignatureIsText: a signature with a zero byte in it, wherever that is, is none, rather
// than one by a key that is not trusted.
func TestSignatureIsText(t *testing.T) {
	key := newPair(t)
	s := newLayout(t)
	name := s.pack("1.4.0")
	text := signatureSaying(s, name, key, trustedComment("1.4.0", name))
	comment := bytes.IndexByte(text, '\n') // of anybody: it is not signed
	for where, at := range map[string]int{"at its end": len(text), "in its first comment": comment} {
		_, err := Open(t.Context(), manySignatures{OCI(s), [][]byte{slices.Insert(bytes.Clone(text), at, 0)}}, name, trusting(key))
		if !errors.Is(err, ErrTampered) {
			t.Errorf("%s: %v", where, err)
		}
	}
}

// TestTrustedCommentIsSigned changes the comment of a signature to that of the release, as
// somebody without the key could.
func TestTrustedCommentIsSigned(t *testing.T) {
	key := newPair(t)
	s := newLayout(t)
	name := s.pack("1.4.0")
	right := trustedComment("1.4.0", name)
	text := signatureSaying(s, name, key, trustedComment("1.3.0", name))
	changed := bytes.Replace(text, []byte(trustedComment("1.3.0", name)), []byte(right), 1)
	if !bytes.Contains(changed, []byte(right)) {
		t.Fatalf("the comment is not in %q", text)
	}
	_, err := Open(t.Context(), manySignatures{OCI(s), [][]byte{changed}}, name, trusting(key))
	wants(t, err, ErrTampered)
}

// TestFirstSignatureNamesTheVersion: beside a valid signature another cannot lift a release
// over the lowest version that is allowed, nor keep it from being opened.
func TestFirstSignatureNamesTheVersion(t *testing.T) {
	key, other := newPair(t), newPair(t)
	s := newLayout(t)
	name := s.pack("1.4.0")
	both := manySignatures{OCI(s), [][]byte{
		signatureSaying(s, name, key, trustedComment("1.4.0", name)),
		signatureSaying(s, name, other, trustedComment("9.9.9", name)),
	}}
	p := trusting(key, other)
	if r, err := Open(t.Context(), both, name, p); err != nil || r.Version != "1.4.0" {
		t.Errorf("opened %v, %v", r, err)
	}
	p.Min = "2.0.0"
	_, err := Open(t.Context(), both, name, p)
	wants(t, err, ErrDowngrade)
}
