package natsauth

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/jwt/v2"

	"partneredge/edge/wire"
)

// TestSharedUserIsMadeAnew where the one that an earlier program made may do less than
// nodes need, is of other NATS keys, or is damaged; and kept otherwise. None is made where
// there was none.
func TestSharedUserIsMadeAnew(t *testing.T) {
	open := func() *Authority {
		t.Helper()
		a, err := Open(filepath.Join(t.TempDir(), "nats"))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	mint := func(credentials, _ string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return credentials
	}
	a := open()
	older, _, err := mintUser(a.account, "region", func(u *jwt.UserClaims) {
		u.Sub.Allow.Add(wire.Changes, wire.ToNode+">", inboxes)
		u.Pub.Allow.Add(wire.AnyNode+wire.VerbKey, wire.AnyNode+wire.VerbKey+".>")
	})
	for _, tt := range []struct {
		name, kept string
		renewed    bool
	}{
		{"none", "", false},
		{"the same", mint(a.sharedUser()), false},
		{"an older program's", mint(older, "", err), true},
		{"of other NATS keys", mint(open().sharedUser()), true},
		{"damaged", mint(a.sharedUser())[:200], true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, RegionUser)
			if tt.kept == "" {
				if renewed, err := a.RenewShared(dir); err != nil || len(renewed) > 0 {
					t.Errorf("renewed %v, %v", renewed, err)
				}
				if _, err := os.Stat(file); err == nil {
					t.Error("a shared user is made")
				}
				return
			}
			if err := os.WriteFile(file, []byte(tt.kept), 0o600); err != nil {
				t.Fatal(err)
			}
			want := []string{file}
			if !tt.renewed {
				want = nil
			}
			var written []byte
			for range 2 { // the second time nothing is left to do
				renewed, err := a.RenewShared(dir)
				if err != nil || !slices.Equal(renewed, want) {
					t.Fatalf("renewed %v, %v; want %v", renewed, err, want)
				}
				before := written
				if written, err = os.ReadFile(file); err != nil {
					t.Fatal(err)
				}
				if before != nil && string(before) != string(written) {
					t.Error("changed again")
				}
				want = nil
			}
			if !tt.renewed && string(written) != tt.kept {
				t.Error("not kept")
			}
			claims, err := userClaims(string(written))
			if err != nil {
				t.Fatal(err)
			}
			for _, verb := range wire.NodeVerbs() {
				if !claims.Pub.Allow.Contains(wire.AnyNode + verb) {
					t.Errorf("it may not publish %s", verb)
				}
			}
		})
	}
}
