package command

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"partneredge/edge/addresstest"
)

// TestOriginPutBack puts an origin back in two ways in which numbers of changes are
// given again: by a copy of the database file alone, and by the same backup twice.
// The node that had seen them refuses what is revoked under them.
func TestOriginPutBack(t *testing.T) {
	t.Parallel()
	testFiles.get(t)
	dir := t.TempDir()
	o := &restoredOrigin{t: t, nats: addresstest.Fixed(t)}
	first := filepath.Join(dir, "origin")
	o.start(first)
	account := makeAccount(t, o.admin)
	rename := func() { o.call("PATCH", "/accounts/"+account, map[string]string{"name": rand.Text()}, "") }
	n := enrolled(t, o.admin, dir, "eu", o.ready.NATSURL)
	n.start()
	// known makes a key and has the node hold it.
	known := func() mintedKey {
		key := makeKey(t, o.admin, account, 1000)
		await(t, "the key to be known", func() bool { return n.get(key.Plaintext) == http.StatusOK })
		return key
	}
	// revoked revokes a key, and gives a few numbers more, so that a node sees that
	// it is behind where it compares numbers alone.
	revoked := func(what string, key mintedKey) {
		t.Helper()
		o.call("POST", "/keys/"+key.Key.ID+"/revoke", nil, "")
		for range 4 {
			rename()
		}
		await(t, what+": the key to be refused", func() bool { return n.get(key.Plaintext) == http.StatusUnauthorized })
	}
	held := []mintedKey{known(), known(), known()}

	// The database file as it was, without edge restore.
	o.terminate()
	copied, err := os.ReadFile(filepath.Join(first, databaseFile))
	if err != nil {
		t.Fatal(err)
	}
	o.start(first)
	for range 3 {
		rename()
	}
	o.inStep(n)
	o.terminate()
	if err := os.WriteFile(filepath.Join(first, databaseFile), copied, 0o600); err != nil {
		t.Fatal(err)
	}
	o.start(first)
	revoked("a file that was copied back", held[0])

	// One backup, restored twice.
	file := filepath.Join(dir, "backup")
	edge(t, "backup", "--data", first, "--to", file)
	for i, name := range []string{"second", "third"} {
		for range 3 {
			rename()
		}
		o.terminate()
		edge(t, "restore", "--from", file, "--data", filepath.Join(dir, name))
		o.start(filepath.Join(dir, name))
		revoked("restored as the "+name, held[1+i])
		await(t, "the others to be served", func() bool { return n.get(held[2].Plaintext) == http.StatusOK || i == 1 })
	}
	n.terminate()
	o.terminate()
}
