package secrets_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/webhook/secrets"
)

// TestKeysAreOf256Bits refuses keys of other sizes, also those that AES would take,
// and names the line.
func TestKeysAreOf256Bits(t *testing.T) {
	for name, digits := range map[string]string{
		"128 bits":            strings.Repeat("5e", 16),
		"192 bits":            strings.Repeat("5e", 24),
		"264 bits":            strings.Repeat("5e", 33),
		"junk after 256 bits": strings.Repeat("5e", 32) + "zz",
	} {
		_, err := secrets.Parse("# keys\n" + old + "short:" + digits + "\n")
		if err == nil || !strings.Contains(err.Error(), "line 3 ") {
			t.Errorf("%s: %v, want an error about line 3", name, err)
		}
	}
	if _, err := secrets.Parse("\n" + old + old); err == nil || !strings.Contains(err.Error(), "line 3 ") {
		t.Errorf("a name twice: %v, want an error about line 3", err)
	}
}

// TestNewKeysDiffer makes two key files. What is sealed with one must not open with
// the other, as it would were the keys not random.
func TestNewKeysDiffer(t *testing.T) {
	first, err := secrets.Load(filepath.Join(t.TempDir(), "secret.keys"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := secrets.Load(filepath.Join(t.TempDir(), "secret.keys"))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := first.Seal("whs_1", secret)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := second.Open("whs_1", sealed); err == nil {
		t.Errorf("another file's key opens it: %q", got)
	}
}

// TestKeyFileIsForItsOwner refuses a file that anybody else may do anything with.
func TestKeyFileIsForItsOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.keys")
	if _, err := secrets.Load(path); err != nil {
		t.Fatal(err)
	}
	for bit := os.FileMode(1); bit <= 0o100; bit <<= 1 {
		if err := os.Chmod(path, 0o600|bit); err != nil {
			t.Fatal(err)
		}
		if _, err := secrets.Load(path); (err == nil) != (bit == 0o100) {
			t.Errorf("mode %o: %v", 0o600|bit, err)
		}
	}
}

// TestLoadRefuses has files that nothing can be sealed with. Load must fail, not
// return keys that fail when the first secret is sealed.
func TestLoadRefuses(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "secret.keys")
	if err := os.WriteFile(junk, []byte("junk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a file of junk":               junk,
		"a folder that is not there":   filepath.Join(t.TempDir(), "none", "secret.keys"),
		"a folder in the file's stead": t.TempDir(),
	} {
		if _, err := secrets.Load(path); err == nil {
			t.Errorf("%s: loaded", name)
		}
	}
}

// TestSealsShortSecrets seals texts that are shorter than what encryption adds.
func TestSealsShortSecrets(t *testing.T) {
	k := parse(t, old)
	for _, short := range []string{"", "a", "four"} {
		sealed, err := k.Seal("whs_1", short)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.Open("whs_1", sealed); err != nil || got != short {
			t.Errorf("%q: opened as %q, %v", short, got, err)
		}
	}
}
