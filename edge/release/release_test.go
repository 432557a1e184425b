package release

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content/memory"
)

func TestPackedSignedOpened(t *testing.T) {
	s, key := newLayout(t), newPair(t)
	name := s.pack("1.4.0")
	s.sign(name, key)
	r, err := Open(t.Context(), OCI(s), name, Policy{Keys: trusting(newPair(t), key).Keys, Min: "1.4.0"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range r.Modules {
		names = append(names, m.Name)
		if want := "\x00asm\x01\x00\x00\x00" + m.Name + "1.4.0"; string(m.Wasm) != want || !strings.Contains(string(m.Manifest), m.Name) {
			t.Errorf("module %s: %q %q", m.Name, m.Wasm, m.Manifest)
		}
	}
	if r.Version != "1.4.0" || r.Digest != name || strings.Join(names, " ") != "agents gate leads" {
		t.Errorf("opened %s %s %v", r.Version, r.Digest, names)
	}
	if len(r.Signers) != 1 || r.Signers[0] != (Signer{KeyID(key.public.ID()), "partneredge release 1.4.0 " + name}) {
		t.Errorf("signers %v", r.Signers)
	}
	if d, err := s.Resolve(t.Context(), "1.4.0"); err != nil || string(d.Digest) != name {
		t.Errorf("tag 1.4.0 is %v, %v", d, err)
	}
}

// TestSameModulesSameDigest checks that the digest depends on content and version
// only, not on where, when, in which order or how often modules are packed.
func TestSameModulesSameDigest(t *testing.T) {
	pack := func(salt, version string, names ...string) digest.Digest {
		d, err := Pack(t.Context(), memory.New(), modulesDir(t, salt, names...), version)
		if err != nil {
			t.Fatal(err)
		}
		return d.Digest
	}
	first := pack("", "1.0.0", "gate", "agents")
	if again := pack("", "1.0.0", "agents", "gate"); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	s := newLayout(t)
	for range 2 {
		s.pack("1.0.0")
	}
	for what, other := range map[string]digest.Digest{
		"another version": pack("", "1.0.1", "gate", "agents"), "another content": pack("x", "1.0.0", "gate", "agents"),
		"a module more": pack("", "1.0.0", "gate", "agents", "leads"),
	} {
		if other == first {
			t.Errorf("%s has the same digest", what)
		}
	}
}

func TestPackRefuses(t *testing.T) {
	good := func(t *testing.T) string { return modulesDir(t, "", "gate") }
	tests := []struct {
		name, version string
		dir           func(*testing.T) string
		why           string
	}{
		{"no version", "", good, "no version"},
		{"a leading v", "v1.0.0", good, "no version"},
		{"two parts", "1.0", good, "no version"},
		{"build metadata", "1.0.0+a", good, "no version"},
		{"nothing", "1.0.0", (*testing.T).TempDir, "0 modules"},
		{"a name", "1.0.0", func(t *testing.T) string { return modulesDir(t, "", "Gate") }, "names no module"},
		{"no manifest", "1.0.0", func(t *testing.T) string {
			dir := good(t)
			_ = os.Remove(filepath.Join(dir, "gate.json"))
			return dir
		}, "no such file"},
		{"no module", "1.0.0", func(t *testing.T) string {
			dir := modulesDir(t, "", "gate", "leads")
			_ = os.Remove(filepath.Join(dir, "leads.wasm"))
			return dir
		}, "leads.wasm: no such file"},
		{"no file", "1.0.0", func(t *testing.T) string {
			dir := good(t)
			_ = os.Remove(filepath.Join(dir, "gate.wasm"))
			if err := os.Mkdir(filepath.Join(dir, "gate.wasm"), 0o700); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "gate.wasm is not a regular file"},
		{"another's manifest", "1.0.0", func(t *testing.T) string {
			dir := good(t)
			writeFile(t, filepath.Join(dir, "gate.json"), `{"name":"leads"}`)
			return dir
		}, `that of "leads"`},
		{"not wasm", "1.0.0", func(t *testing.T) string {
			dir := good(t)
			writeFile(t, filepath.Join(dir, "gate.wasm"), "#!/bin/sh")
			return dir
		}, "not WebAssembly"},
		{"a manifest too large", "1.0.0", func(t *testing.T) string {
			dir := good(t)
			writeFile(t, filepath.Join(dir, "gate.json"), `{"name":"gate"}`+strings.Repeat(" ", MaxManifest))
			return dir
		}, "more than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Pack(t.Context(), memory.New(), tt.dir(t), tt.version); err == nil || !strings.Contains(err.Error(), tt.why) {
				t.Errorf("error %v, want one with %q", err, tt.why)
			}
		})
	}
}

// TestPackedVersionIsTaken packs other modules under a version that is there: nothing of it is
// kept, and the release that has the version is found by it as before.
func TestPackedVersionIsTaken(t *testing.T) {
	s := newLayout(t)
	first := s.pack("1.4.0")
	before, err := os.ReadFile(filepath.Join(s.path, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Pack(t.Context(), s, modulesDir(t, "other", "gate"), "1.4.0"); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), first) {
		t.Errorf("error %v, want ErrTaken by %s", err, first)
	}
	after, err := os.ReadFile(filepath.Join(s.path, "index.json"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the layout has %s, %v; before %s", after, err, before)
	}
}

// TestRefused checks what an origin could send that an attacker controls.
func TestRefused(t *testing.T) {
	key := newPair(t)
	tests := []struct {
		name   string
		policy Policy
		change func(s *layout, r *Release) // of a release 1.4.0 that key has signed
		want   error
	}{
		{"nothing wrong", trusting(key), func(*layout, *Release) {}, nil},
		{"tampered wasm", trusting(key), func(s *layout, r *Release) { s.change(string(r.Modules[0].wasm.Digest), flip) }, ErrTampered},
		{"tampered module manifest", trusting(key), func(s *layout, r *Release) { s.change(string(r.Modules[1].described.Digest), flip) }, ErrTampered},
		{"tampered config", trusting(key), func(s *layout, r *Release) {
			s.change(string(r.config.Digest), func(b []byte) []byte { return []byte(strings.Replace(string(b), "1.4.0", "9.4.0", 1)) })
		}, ErrTampered},
		{"tampered manifest", trusting(key), func(s *layout, r *Release) { s.change(r.Digest, flip) }, ErrTampered},
		{"truncated wasm", trusting(key), func(s *layout, r *Release) { s.change(string(r.Modules[0].wasm.Digest), halve) }, ErrTruncated},
		{"empty wasm", trusting(key), func(s *layout, r *Release) {
			s.change(string(r.Modules[0].wasm.Digest), func([]byte) []byte { return nil })
		}, ErrTruncated},
		{"truncated config", trusting(key), func(s *layout, r *Release) { s.change(string(r.config.Digest), halve) }, ErrTruncated},
		{"missing wasm", trusting(key), func(s *layout, r *Release) { _ = os.Remove(s.file(string(r.Modules[0].wasm.Digest))) }, ErrNotFound},
		{"longer wasm", trusting(key), func(s *layout, r *Release) {
			s.change(string(r.Modules[0].wasm.Digest), func(b []byte) []byte { return append([]byte("x"), b...) })
		}, ErrTampered},
		{"downgraded", Policy{Keys: trusting(key).Keys, Min: "1.4.1"}, func(*layout, *Release) {}, ErrDowngrade},
		{"pre-release of the least", Policy{Keys: trusting(key).Keys, Min: "1.5.0-rc.1"}, func(*layout, *Release) {}, ErrDowngrade},
		{"wrong key", trusting(newPair(t)), func(*layout, *Release) {}, ErrWrongKey},
		{"no key", Policy{}, func(*layout, *Release) {}, ErrWrongKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newLayout(t)
			name := s.pack("1.4.0")
			s.sign(name, key)
			r, err := Open(t.Context(), OCI(s), name, trusting(key))
			if err != nil {
				t.Fatal(err)
			}
			tt.change(s, r)
			opened, err := Open(t.Context(), OCI(s), name, tt.policy)
			wants(t, err, tt.want)
			if (opened == nil) != (tt.want != nil) {
				t.Errorf("opened %v", opened)
			}
			// A node keeps nothing of a release that it refuses.
			d, err := OpenDir(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			_, err = d.Fetch(t.Context(), OCI(s), name, tt.policy)
			wants(t, err, tt.want)
			if files, _ := filepath.Glob(filepath.Join(d.blobs(), "*")); (len(files) == 0) != (tt.want != nil) {
				t.Errorf("kept %v", files)
			}
		})
	}
}

func TestSignatures(t *testing.T) {
	key, other := newPair(t), newPair(t)
	s := newLayout(t)
	first, second := s.pack("1.0.0"), s.pack("1.1.0")
	open := func(name string, p Policy) error {
		_, err := Open(t.Context(), OCI(s), name, p)
		return err
	}
	wants(t, open(first, trusting(key)), ErrUnsigned)

	// A signature of another release is refused.
	s.sign(first, key)
	moved := signatureOf(s, first)
	subject, err := s.Resolve(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	if err := attach(t.Context(), s, subject, moved); err != nil {
		t.Fatal(err)
	}
	wants(t, open(second, trusting(key)), ErrTampered)
	wants(t, open(second, trusting(other)), ErrWrongKey)
	// A valid one beside it is enough.
	s.sign(second, key)
	wants(t, open(second, trusting(key)), nil)

	// So is a signature of the same bytes with another comment.
	third := s.pack("1.2.0")
	subject, err = s.Resolve(t.Context(), third)
	if err != nil {
		t.Fatal(err)
	}
	for _, comment := range []string{"", "file:manifest.json", trustedComment("1.3.0", third), trustedComment("1.2.0", first)} {
		if err := attach(t.Context(), s, subject, signatureSaying(s, third, key, comment)); err != nil {
			t.Fatal(err)
		}
		wants(t, open(third, trusting(key)), ErrTampered)
	}

	// And so is garbage.
	fourth := s.pack("1.3.0")
	if subject, err = s.Resolve(t.Context(), fourth); err != nil {
		t.Fatal(err)
	}
	if err := attach(t.Context(), s, subject, []byte("untrusted comment: \n\n\n")); err != nil {
		t.Fatal(err)
	}
	wants(t, open(fourth, trusting(key)), ErrTampered)

	// Either of two keys is enough.
	fifth := s.pack("1.5.0")
	s.sign(fifth, key)
	s.sign(fifth, other)
	for _, p := range []Policy{trusting(key), trusting(other), trusting(key, other)} {
		r, err := Open(t.Context(), OCI(s), fifth, p)
		if err != nil || len(r.Signers) != len(p.Keys) {
			t.Errorf("opened %v, %v", r, err)
		}
	}
	// Inspect does not check signatures.
	if r, err := Inspect(t.Context(), OCI(s), fourth); err != nil || r.Version != "1.3.0" || len(r.Signers) != 0 {
		t.Errorf("inspected %v, %v", r, err)
	}
}

func TestVersions(t *testing.T) {
	for _, v := range []string{"0.0.1", "1.4.0", "10.20.30", "1.4.0-rc.1"} {
		if err := CheckVersion(v); err != nil {
			t.Error(err)
		}
	}
	for _, v := range []string{"", "1", "1.2", "v1.2.3", "1.2.3+b", "01.2.3", "1.2.3-", "1.2.3 ", strings.Repeat("1", 65) + ".0.0"} {
		wants(t, CheckVersion(v), ErrMalformed)
	}
	ordered := []string{"what", "0.9.9", "1.0.0-rc.1", "1.0.0-rc.2", "1.0.0", "1.2.0", "1.10.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got, want := compareVersions(a, b), signum(i-j); got != want {
				t.Errorf("compareVersions(%s, %s) = %d, want %d", a, b, got, want)
			}
		}
	}
}

func signum(n int) int { return min(max(n, -1), 1) }
