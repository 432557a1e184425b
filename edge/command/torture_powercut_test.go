//go:build linux

package command

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"partneredge/store/durable/durabletest"
)

// TestPowerCutWithoutOrigin holds that a node whose origin's connections end in the
// middle of the handshake starts if it has records, and that one that lost them with
// the power starts once its origin is back.
func TestPowerCutWithoutOrigin(t *testing.T) {
	t.Parallel()
	w := &torture{site: startSite(t), releases: map[string]string{}}
	d := w.diskVictim("us", w.pushReleases(), func(op durabletest.Op) error {
		// The file that takes the place of one whose sync failed has a longer name.
		if op.Kind == durabletest.Sync && strings.HasPrefix(filepath.Base(op.Path), "hot.db") {
			return syscall.EIO
		}
		return nil
	})
	key := w.key().Plaintext
	serves := func() bool { return d.get(key) == http.StatusOK }
	await(t, "the node to know a key", serves)

	d.relay.Cut()
	d.cut(nil)
	d.before = nil
	d.begin()
	if d.baseURL() != "" {
		t.Fatal("the power cut left the node its records")
	}
	d.relay.Mend()
	await(t, "the node to start", d.up)
	await(t, "the node to know the key again", serves)

	d.relay.Cut()
	if err := d.node.Stop(t.Context()); err != nil { // which brings its records to disk
		t.Fatal(err)
	}
	d.set("", "")
	d.begin()
	if !serves() {
		t.Errorf("a node with records, and without its origin, answers %d", d.get(key))
	}
}
