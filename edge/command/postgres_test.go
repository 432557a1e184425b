package command

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/adminapi"
	"partneredge/edge/dev"
	"partneredge/store/central/centraltest"
)

// TestTwoOriginsOnPostgres runs two origin processes over one database: what one
// is told the other knows, and an end by force leaves the other unharmed.
func TestTwoOriginsOnPostgres(t *testing.T) {
	database := centraltest.Postgres(t)
	start := func(name string) (*process, *adminapi.Client) {
		dir := filepath.Join(t.TempDir(), name)
		var o originReady
		p := startProcess(t, filepath.Join(dir, "origin.json"), &o, "origin", "--data", dir,
			"--admin", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--database", database)
		token, err := os.ReadFile(filepath.Join(dir, "admin.token"))
		if err != nil {
			t.Fatal(err)
		}
		return p, &adminapi.Client{URL: o.AdminURL, Token: strings.TrimSpace(string(token))}
	}
	one, first := start("one")
	made, err := dev.OpenAccount(t.Context(), first, filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	two, second := start("two")
	if err := second.Call(t.Context(), http.MethodGet, "/accounts/"+made.AccountID, nil, nil); err != nil {
		t.Errorf("the second origin does not know the account: %v", err)
	}
	one.kill()
	good, err := dev.AcceptedKeys(t.Context(), second, made.AccountID)
	if err != nil || !good[made.LiveID] || !good[made.TestID] {
		t.Errorf("keys at the second origin: %v %v", good, err)
	}
	two.terminate()
}
