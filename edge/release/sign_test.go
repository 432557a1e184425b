package release

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// signatureOf returns the only signature of a release.
func signatureOf(s *layout, name string) []byte {
	s.Helper()
	all, err := OCI(s).Signatures(s.Context(), name)
	if err != nil || len(all) != 1 {
		s.Fatalf("%d signatures, %v", len(all), err)
	}
	return all[0]
}

// signatureSaying signs the manifest of a release with a trusted comment.
func signatureSaying(s *layout, name string, key pair, comment string) []byte {
	s.Helper()
	manifest, err := OCI(s).Manifest(s.Context(), name)
	if err != nil {
		s.Fatal(err)
	}
	message := minisign.NewReader(bytes.NewReader(manifest))
	if _, err := io.Copy(io.Discard, message); err != nil {
		s.Fatal(err)
	}
	return message.SignWithComments(key.private, comment, "-")
}

// TestMinisignVerifies checks that Debian's minisign verifies a signature, so that an
// operator can check a release without this program.
func TestMinisignVerifies(t *testing.T) {
	if _, err := exec.LookPath("minisign"); err != nil {
		if os.Getenv("EDGE_REQUIRE_MINISIGN") == "1" {
			t.Fatal("no minisign, and EDGE_REQUIRE_MINISIGN is set")
		}
		t.Skip("NOT TESTED against minisign itself: it is not installed")
	}
	s, key := newLayout(t), newPair(t)
	name := s.pack("1.4.0")
	s.sign(name, key)
	dir := t.TempDir()
	public, err := key.public.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "key.pub"), string(public)+"\n")
	writeFile(t, filepath.Join(dir, "manifest.minisig"), string(signatureOf(s, name)))
	verify := func(file string) (string, error) {
		out, err := exec.Command("minisign", "-V", "-p", filepath.Join(dir, "key.pub"), "-x", filepath.Join(dir, "manifest.minisig"), "-m", file).CombinedOutput()
		return string(out), err
	}
	out, err := verify(s.file(name))
	if err != nil || !strings.Contains(out, "Trusted comment: "+trustedComment("1.4.0", name)) {
		t.Errorf("minisign: %v\n%s", err, out)
	}
	s.change(name, flip)
	if out, err := verify(s.file(name)); err == nil {
		t.Errorf("minisign took a changed manifest:\n%s", out)
	}
}

func TestParseKeys(t *testing.T) {
	a, b := newPair(t), newPair(t)
	text := func(p pair) string {
		b, err := p.public.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		return string(b) + "\n"
	}
	tests := []struct {
		name, text string
		want       []pair
	}{
		{"as minisign writes it", text(a), []pair{a}},
		{"two files in one", text(a) + text(b), []pair{a, b}},
		{"bare, with remarks", "# ops\n\n" + a.public.String() + "\r\n", []pair{a}},
		{"empty", "", nil},
		{"remarks alone", "# none yet\n", nil},
		{"a word", text(a) + "key\n", nil},
		{"too long", text(a) + strings.Repeat("#\n", maxKeys), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseKeys([]byte(tt.text))
			if (err == nil) != (tt.want != nil) || len(got) != len(tt.want) {
				t.Fatalf("%v, %v", got, err)
			}
			for i, key := range got {
				if !key.Equal(tt.want[i].public) {
					t.Errorf("key %d is %s", i, key)
				}
			}
		})
	}
	if _, err := ReadKeys(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("read keys from nowhere")
	}
}

func FuzzParseKeys(f *testing.F) {
	key := newPair(f)
	f.Add([]byte("untrusted comment: x\n" + key.public.String() + "\n"))
	f.Add([]byte("#\r\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text)
		if (err == nil) != (len(keys) > 0) {
			t.Fatalf("%d keys and %v", len(keys), err)
		}
		var again strings.Builder
		for _, k := range keys {
			fmt.Fprintln(&again, k)
		}
		if err != nil {
			return
		}
		if same, err := parseKeys([]byte(again.String())); err != nil || len(same) != len(keys) {
			t.Fatalf("written and read again: %v, %v", same, err)
		}
	})
}

func FuzzReadSignature(f *testing.F) {
	key := newPair(f)
	f.Add(minisign.SignWithComments(key.private, []byte("x"), trustedComment("1.0.0", "sha256:"+strings.Repeat("0", 64)), ""))
	f.Add([]byte("untrusted comment: \n\ntrusted comment: \n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := readSignature(text)
		if err != nil {
			return
		}
		version, valid := commentVersion(s.TrustedComment, "sha256:"+strings.Repeat("0", 64))
		if valid && CheckVersion(version) != nil {
			t.Fatalf("version %q of %q", version, s.TrustedComment)
		}
		// Nobody has signed this.
		p := Policy{Keys: []minisign.PublicKey{key.public}}
		if _, err := p.judge(&Release{manifest: []byte("y"), signatures: [][]byte{text}}); err == nil {
			t.Fatal("a signature of something else counts")
		}
	})
}
