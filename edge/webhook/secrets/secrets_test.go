package secrets_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"partneredge/edge/webhook/secrets"
	"partneredge/store/central/deliveries"
)

const (
	secret = "3f1c0c6a5e0b4d2f9a7b8c6d5e4f30213f1c0c6a5e0b4d2f9a7b8c6d5e4f3021"
	old    = "old:0000000000000000000000000000000000000000000000000000000000000001\n"
	fresh  = "new:0000000000000000000000000000000000000000000000000000000000000002\n"
)

func parse(t *testing.T, text string) *secrets.Keys {
	t.Helper()
	k, err := secrets.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealAndOpen(t *testing.T) {
	before := parse(t, old)
	sealed, err := before.Seal("whs_1", secret)
	if err != nil || strings.Contains(sealed, secret) {
		t.Fatalf("sealed %q %v", sealed, err)
	}
	again, _ := before.Seal("whs_1", secret)
	if again == sealed {
		t.Error("sealed twice, it is the same text")
	}
	rotated := parse(t, "# newest first\n\n"+fresh+old)
	for name, k := range map[string]*secrets.Keys{"the same key": before, "a second key": rotated} {
		if got, err := k.Open("whs_1", sealed); err != nil || got != secret {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	if !before.Fresh(sealed) || rotated.Fresh(sealed) || before.Fresh(secret) {
		t.Error("fresh is not what the first key sealed")
	}
	if got, err := before.Open("whs_1", secret); err != nil || got != secret {
		t.Errorf("not sealed: %q %v", got, err)
	}
	for name, test := range map[string]struct {
		keys       *secrets.Keys
		id, sealed string
	}{
		"another record": {before, "whs_2", sealed},
		"key is gone":    {parse(t, fresh), "whs_1", sealed},
		"cut short":      {before, "whs_1", sealed[:len(sealed)-4]},
		"no text":        {before, "whs_1", "sealed:old:"},
		"not base64":     {before, "whs_1", "sealed:old:***"},
		"no key":         {before, "whs_1", "sealed:"},
	} {
		if got, err := test.keys.Open(test.id, test.sealed); err == nil {
			t.Errorf("%s: opened as %q", name, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "a comment": "# k", "no name": ":" + old[4:], "no colon": old[4:], "short": old[:20], "not hex": "k:" + strings.Repeat("z", 64),
		"a name twice": old + old,
	} {
		if _, err := secrets.Parse(text); err == nil {
			t.Errorf("%s is taken", name)
		} else if strings.Contains(err.Error(), "00000000") {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret.keys")
	var starters sync.WaitGroup
	sealed := make([]string, 8)
	for i := range sealed {
		starters.Go(func() { // processes that start together make one file
			k, err := secrets.Load(path)
			if err != nil {
				t.Error(err)
				return
			}
			sealed[i], _ = k.Seal("whs_1", secret)
		})
	}
	starters.Wait()
	k, err := secrets.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sealed {
		if got, err := k.Open("whs_1", s); err != nil || got != secret {
			t.Errorf("%q %v", got, err)
		}
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Load(path); err == nil {
		t.Error("a file that others can read is taken")
	}
}

func FuzzOpen(f *testing.F) {
	k, err := secrets.Parse(old)
	if err != nil {
		f.Fatal(err)
	}
	sealed, _ := k.Seal("whs_1", secret)
	f.Add(sealed)
	f.Add("sealed:old:")
	f.Add("sealed::")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := k.Open("whs_1", text)
		if err == nil && strings.HasPrefix(text, "sealed:") && got != secret {
			t.Fatalf("%q opens as %q", text, got)
		}
	})
}

// TestKeysOfTwoFilesAreToldApart: what one file's key has sealed is stale to another file
// made on the same day, and the error names the key that is missing.
func TestKeysOfTwoFilesAreToldApart(t *testing.T) {
	var keys [2]*secrets.Keys
	for i := range keys {
		var err error
		if keys[i], err = secrets.Load(filepath.Join(t.TempDir(), "secrets.keys")); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := keys[0].Seal("whs_1", secret)
	if err != nil {
		t.Fatal(err)
	}
	if !keys[0].Fresh(sealed) || keys[1].Fresh(sealed) {
		t.Errorf("fresh to its own key %v, to another %v", keys[0].Fresh(sealed), keys[1].Fresh(sealed))
	}
	if _, err := keys[1].Open("whs_1", sealed); !errors.Is(err, deliveries.ErrNoKey) || !strings.Contains(err.Error(), "is not in the key file") {
		t.Errorf("opened with another key: %v", err)
	}
	for _, damaged := range []string{"sealed:", sealed[:20], sealed + "!"} {
		if _, err := keys[1].Open("whs_1", damaged); err == nil || errors.Is(err, deliveries.ErrNoKey) {
			t.Errorf("what is damaged is said to lack its key: %v", err)
		}
	}
}
