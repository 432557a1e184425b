package release

import (
	"bytes"
	"errors"
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

// TestMakeKeysWithAPassword keeps the private key encrypted, and no key at all when that
// fails. What minisign does here takes a gigabyte and seconds.
func TestMakeKeysWithAPassword(t *testing.T) {
	private := filepath.Join(t.TempDir(), "release.key")
	encrypt := func(password string, _ minisign.PrivateKey) ([]byte, error) {
		if password != "swordfish" {
			return nil, errors.New("another password")
		}
		return []byte("encrypted"), nil
	}
	if _, err := makeKeys(private, private+".pub", "Swordfish", encrypt); err == nil {
		t.Error("keys were made that could not be encrypted")
	}
	if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a private key is there: %v", err)
	}
	if _, err := makeKeys(private, private+".pub", "swordfish", encrypt); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(private); err != nil || string(text) != "encrypted\n" {
		t.Errorf("the private key is kept as %q, %v", text, err)
	}
}

// TestKeyErrorsNameTheLine has the mistake in the third line.
func TestKeyErrorsNameTheLine(t *testing.T) {
	_, err := parseKeys([]byte("# one\n" + newPair(t).public.String() + "\nkey\n"))
	if err == nil || !strings.Contains(err.Error(), "line 3 ") {
		t.Errorf("%v, want an error about line 3", err)
	}
	key := newPair(t).public.String() + "\n"
	full := key + strings.Repeat("#\n", (maxKeys-len(key))/2) + strings.Repeat("#", (maxKeys-len(key))%2)
	if _, err := parseKeys([]byte(full)); err != nil || len(full) != maxKeys {
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

// encryptedKey is a private key as minisign writes it, with the password "swordfish",
// at the least cost: what MakeKeys does takes a gigabyte and seconds.
const (
	encryptedKey = "untrusted comment: minisign encrypted secret key\n" +
		"RWRTY0IyY0ea1poJCyWCd+yPum+ZQZov+ySJgVEGV8lEzNEUjpcAgAAAAAAAAAAAEAAAAAAAC3hIc2O9uVMr3lAH77tcWiEm0PDBGyg9phBDITNA" +
		"QW54PhlezO7gfgpaeG6PZrs556s/7vWA3j3UaWym3zvNFk1R+4Lvbtv8oAdqsc194nYTI8RNAaJcK0R6R6rk8CkGGRTL3jVwBmQ=\n"
	encryptedKeyID = 0x0123456789ABCDEF
)

func TestReadPrivateKey(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "release.key")
		writeFile(t, path, text)
		return path
	}
	open, err := newPair(t).private.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var openKey minisign.PrivateKey
	if err := openKey.UnmarshalText(open); err != nil {
		t.Fatal(err)
	}
	errNobody := errors.New("nobody to ask")
	answer := func(password string) func() (string, error) {
		return func() (string, error) { return password, nil }
	}
	for name, test := range map[string]struct {
		file  string
		ask   func() (string, error)
		id    uint64 // of the key, when it is read
		fails error  // the error to be found in it, when that is known
	}{
		"open":               {file: file(string(open)), id: openKey.ID()}, // nobody is asked
		"the password":       {file: file(encryptedKey), ask: answer("swordfish"), id: encryptedKeyID},
		"another password":   {file: file(encryptedKey), ask: answer("Swordfish")},
		"nobody to ask":      {file: file(encryptedKey), ask: func() (string, error) { return "swordfish", errNobody }, fails: errNobody},
		"junk":               {file: file("junk\n")},
		"a file not there":   {file: filepath.Join(t.TempDir(), "none"), fails: os.ErrNotExist},
		"a public key":       {file: file(newPair(t).public.String() + "\n")},
		"an encrypted stump": {file: file(encryptedKey[:len(encryptedKey)-9]), ask: answer("swordfish")},
	} {
		key, err := ReadPrivateKey(test.file, test.ask)
		if (err == nil) != (test.id != 0) || key.ID() != test.id || test.fails != nil && !errors.Is(err, test.fails) {
			t.Errorf("%s: key %x, %v, want %x, %v", name, key.ID(), err, test.id, test.fails)
		}
	}
}

// TestKeyFilesAreRefused has files that hold no key, or too much.
func TestKeyFilesAreRefused(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "release.pub")
	writeFile(t, junk, "junk\n")
	if keys, err := ReadKeys(junk); err == nil {
		t.Errorf("read %v from a file of junk", keys)
	}
	// One line that fills the file has no end that a reader of lines would find.
	if keys, err := parseKeys([]byte(strings.Repeat("#", maxKeys))); err == nil {
		t.Errorf("read %v from one long line", keys)
	}
}
