package release

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"aead.dev/minisign"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content/oci"
)

// layout is an OCI layout on disk whose files tests can change.
type layout struct {
	*testing.T
	*oci.Store
	path string
}

func newLayout(t *testing.T) *layout {
	t.Helper()
	s := &layout{T: t, path: t.TempDir()}
	s.reopen()
	return s
}

func (s *layout) reopen() {
	s.Helper()
	var err error
	if s.Store, err = oci.New(s.path); err != nil {
		s.Fatal(err)
	}
}

// modulesDir creates a folder of modules, whose content depends on salt.
func modulesDir(t *testing.T, salt string, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "[a") // no pattern
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		writeFile(t, filepath.Join(dir, name+".wasm"), "\x00asm\x01\x00\x00\x00"+name+salt)
		writeFile(t, filepath.Join(dir, name+".json"), fmt.Sprintf(`{"name": %q, "capabilities": []}`, name))
	}
	return dir
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pack packs a gate and two handlers and returns the digest.
func (s *layout) pack(version string) string {
	s.Helper()
	d, err := Pack(s.Context(), s.Store, modulesDir(s.T, version, "gate", "agents", "leads"), version)
	if err != nil {
		s.Fatal(err)
	}
	return string(d.Digest)
}

func (s *layout) sign(name string, key pair) {
	s.Helper()
	if _, err := Sign(s.Context(), s.Store, name, key.private); err != nil {
		s.Fatal(err)
	}
}

// file returns the path of a digest's content.
func (s *layout) file(name string) string {
	return filepath.Join(s.path, "blobs", "sha256", digest.Digest(name).Encoded())
}

// change rewrites the content of a digest.
func (s *layout) change(name string, how func([]byte) []byte) {
	s.Helper()
	text, err := os.ReadFile(s.file(name))
	if err != nil {
		s.Fatal(err)
	}
	if err := os.Remove(s.file(name)); err != nil { // it is read-only
		s.Fatal(err)
	}
	writeFile(s.T, s.file(name), string(how(text)))
}

func flip(text []byte) []byte {
	text[len(text)-1] ^= 1
	return text
}

func halve(text []byte) []byte { return text[:len(text)/2] }

// pair is a pair of keys.
type pair struct {
	public  minisign.PublicKey
	private minisign.PrivateKey
}

func newPair(t testing.TB) (p pair) {
	t.Helper()
	var err error
	if p.public, p.private, err = minisign.GenerateKey(nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func trusting(keys ...pair) (p Policy) {
	for _, k := range keys {
		p.Keys = append(p.Keys, k.public)
	}
	return p
}

// wants fails the test unless err is of this kind.
func wants(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want %v", err, kind)
	}
}
