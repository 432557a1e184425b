package natsauth

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestSeedsOthersCanRead: with a seed that others can read, whoever is on the machine can
// sign credentials. Each of the three is refused, with what mends it.
func TestSeedsOthersCanRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: on Windows modes say nothing of who may read a file")
	}
	dir := filepath.Join(t.TempDir(), "nats")
	made, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, seed := range []string{"operator.seed", "account.seed", "system.seed"} {
		path := filepath.Join(dir, seed)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s is made with mode %04o", seed, info.Mode().Perm())
		}
		for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(mode %04o): chmod 600 '%s'", mode, path)) {
				t.Errorf("%s with mode %04o: %v", seed, mode, err)
			}
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := Open(dir); err != nil || again.AccountID != made.AccountID {
		t.Errorf("opened again: %v", err)
	}
}

// TestRevokedForGood: credentials that an origin signed whose clock is ahead of the one that
// the revocation is dated by are revoked too.
func TestRevokedForGood(t *testing.T) {
	a, err := Open(filepath.Join(t.TempDir(), "nats"))
	if err != nil {
		t.Fatal(err)
	}
	claims, _, err := a.SignAccount(map[string]time.Time{"UGONE": time.Now().Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	signed := time.Now().Add(365 * 24 * time.Hour)
	if !claims.Revocations.IsRevoked("UGONE", signed) || claims.Revocations.IsRevoked("UOTHER", signed) {
		t.Errorf("revoked are %v", claims.Revocations)
	}
}

// TestRoutePassword: all origins with the same keys write the same password of routes, others
// another one, and nobody but their user may read it.
func TestRoutePassword(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("NOT TESTED: on Windows modes say nothing of who may read a file")
	}
	dir := filepath.Join(t.TempDir(), "nats")
	write := func(keys string) (password string) {
		a, err := Open(keys)
		if err != nil {
			t.Fatal(err)
		}
		to := t.TempDir()
		if err := a.WriteCluster(to, nil); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(to, RoutePassword))
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(to, RoutePassword)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is made as %v, %v", RoutePassword, info, err)
		}
		return string(text)
	}
	one, same, other := write(dir), write(dir), write(filepath.Join(t.TempDir(), "nats"))
	if len(one) != 65 || one != same || one == other {
		t.Errorf("the passwords are %q, of the same keys %q, of others %q", one, same, other)
	}
}
