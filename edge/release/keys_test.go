package release

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aead.dev/minisign"
)

// TestMakeKeys signs with a pair that was made and verifies with what the public
// file holds. Others may read that one alone.
func TestMakeKeys(t *testing.T) {
	private, public := filepath.Join(t.TempDir(), "release.key"), filepath.Join(t.TempDir(), "release.pub")
	made, err := MakeKeys(private, public, "")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{private: 0o600, public: 0o644} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, want mode %o: %v", filepath.Base(path), info, want, err)
		}
	}
	text, err := os.ReadFile(private)
	if err != nil {
		t.Fatal(err)
	}
	var key minisign.PrivateKey
	if err := key.UnmarshalText(bytes.TrimSpace(text)); err != nil {
		t.Fatal(err)
	}
	trusted, err := ReadKeys(public)
	if err != nil || len(trusted) != 1 || !trusted[0].Equal(made) {
		t.Fatalf("%v, %v", trusted, err)
	}
	if !minisign.Verify(trusted[0], []byte("x"), minisign.Sign(key, []byte("x"))) {
		t.Error("what the private key signs, the public one does not verify")
	}
	nowhere := filepath.Join(t.TempDir(), "none", "key")
	for _, paths := range [][2]string{{nowhere, public}, {private, nowhere}} {
		if _, err := MakeKeys(paths[0], paths[1], ""); err == nil {
			t.Errorf("made %s in a folder that is not there", nowhere)
		}
	}
}

// TestKeyErrorsNameTheLine has the mistake in the third line.
func TestKeyErrorsNameTheLine(t *testing.T) {
	_, err := ParseKeys([]byte("# one\n" + newPair(t).public.String() + "\nkey\n"))
	if err == nil || !strings.Contains(err.Error(), "line 3 ") {
		t.Errorf("%v, want an error about line 3", err)
	}
	key := newPair(t).public.String() + "\n"
	full := key + strings.Repeat("#\n", (maxKeys-len(key))/2) + strings.Repeat("#", (maxKeys-len(key))%2)
	if _, err := ParseKeys([]byte(full)); err != nil || len(full) != maxKeys {
		t.Errorf("a file of %d bytes: %v", len(full), err)
	}
}

// TestLongestManifest pads a manifest to the most that one may have, and by one
// byte more.
func TestLongestManifest(t *testing.T) {
	s := newLayout(t)
	text, err := os.ReadFile(s.file(s.pack("1.4.0")))
	if err != nil {
		t.Fatal(err)
	}
	for length, fits := range map[int]bool{MaxManifest: true, MaxManifest + 1: false} {
		padded := append(bytes.Clone(text), bytes.Repeat([]byte(" "), length-len(text))...)
		if _, err := readManifest(padded); (err == nil) != fits {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}
