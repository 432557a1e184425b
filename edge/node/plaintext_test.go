package node

import (
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"partneredge/store/logtest"
)

// noNetwork is a dialer that reaches nobody.
type noNetwork struct{}

// Dial implements nats.CustomDialer.
func (noNetwork) Dial(string, string) (net.Conn, error) { return nil, errors.New("no network") }

// TestPlaintextOriginIsWarnedOf, unless it is on this machine.
func TestPlaintextOriginIsWarnedOf(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	for url, warnings := range map[string]int{
		"nats://127.0.0.1:4222": 0, "nats://[::1]:4222": 0, "tls://192.0.2.1:4222": 0,
		"nats://192.0.2.1:4222": 1, "nats://origin.example:4222": 1, "tls://192.0.2.1:4222,nats://192.0.2.2:4222": 1,
	} {
		c := config(t, o)
		var log logtest.Buffer
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Origin, c.dialer, c.StartTimeout = url, noNetwork{}, time.Millisecond
		if n, err := Start(t.Context(), c); err == nil {
			stopNode(t, n)
			t.Fatalf("a node of %s started without its origin", url)
		}
		if said := strings.Count(log.String(), "is not encrypted"); said != warnings {
			t.Errorf("%s: warned %d times, want %d:\n%s", url, said, warnings, log.String())
		}
	}
}
