package broker

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/origin/natsauth"
)

// TestPlaintextOffTheMachineIsWarnedOf, for nodes and for the servers of regions.
func TestPlaintextOffTheMachineIsWarnedOf(t *testing.T) {
	const loopback, everywhere = "127.0.0.1:0", "0.0.0.0:0"
	for _, tt := range []struct {
		listen, leaves string
		warnings       int
	}{
		{loopback, "", 0}, {loopback, loopback, 0}, {everywhere, "", 1}, {loopback, everywhere, 1}, {everywhere, everywhere, 2},
	} {
		dir := filepath.Join(t.TempDir(), "nats")
		authority, err := natsauth.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		b, err := Start(Config{
			Authority: authority, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Listen: tt.listen, LeafListen: tt.leaves, Dir: dir,
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		if n := strings.Count(log.String(), "without TLS"); n != tt.warnings {
			t.Errorf("NATS at %s, regions at %q: %d warnings, want %d:\n%s", tt.listen, tt.leaves, n, tt.warnings, &log)
		}
	}
}
