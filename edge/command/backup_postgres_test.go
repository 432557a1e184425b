package command

import (
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"partneredge/edge/addresstest"
	"partneredge/edge/dev"
	"partneredge/store/central/centraltest"
)

// TestBackupAndRestoreOnPostgres takes the database with pg_dump and the rest
// with edge backup, loses both, and puts both back.
func TestBackupAndRestoreOnPostgres(t *testing.T) {
	t.Parallel()
	database := centraltest.Postgres(t)
	for _, tool := range []string{"pg_dump", "pg_restore"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("EDGE_REQUIRE_POSTGRES") != "" {
				t.Fatal(err)
			}
			t.Skipf("NOT TESTED: backup and restore on PostgreSQL: %v", err)
		}
	}
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	schema := query.Get("search_path")
	query.Del("search_path") // pgx's, not libpq's
	u.RawQuery = query.Encode()
	pg := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}

	dir := t.TempDir()
	o := &restoredOrigin{t: t, nats: addresstest.Fixed(t), flags: []string{"--database", database}}
	first := filepath.Join(dir, "origin")
	o.start(first)
	held, err := dev.OpenAccount(t.Context(), o.admin, filepath.Join(dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	dump, file := filepath.Join(dir, "database"), filepath.Join(dir, "files")
	pg("pg_dump", "--format=custom", "--schema="+schema, "--file="+dump, u.String())
	edge(t, "backup", "--data", first, "--to", file, "--database", database)
	o.kill()
	server, err := sql.Open("pgx", database)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var before, after int64
	if err := server.QueryRow("SELECT seq FROM change_counter").Scan(&before); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Exec("DROP SCHEMA " + schema + " CASCADE"); err != nil {
		t.Fatal(err)
	}

	pg("pg_restore", "--dbname="+u.String(), dump)
	second := filepath.Join(dir, "restored")
	edge(t, "restore", "--from", file, "--data", second, "--database", database)
	o.start(second)
	if good, err := dev.AcceptedKeys(t.Context(), o.admin, held.AccountID); err != nil || !good[held.LiveID] || !good[held.TestID] {
		t.Errorf("keys after the restore: %v, %v", good, err)
	}
	if err := server.QueryRow("SELECT seq FROM change_counter").Scan(&after); err != nil || after <= before {
		t.Errorf("the changes' number went from %d to %d, %v", before, after, err)
	}
	o.terminate()
}
