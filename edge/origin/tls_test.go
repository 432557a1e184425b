package origin

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"partneredge/edge/certificate/certificatetest"
)

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	cert, key := certificatetest.Write(t, t.TempDir())
	f := newFixture(t, func(c *Config) { c.AdminCert, c.AdminKey = cert, key })
	certificatetest.OnlyTLS13(t, strings.TrimPrefix(f.AdminURL(), "https://"), certificatetest.Roots(t, cert))
}

// TestReplacedFilesAreNoticedByMetrics: nobody connects to the NATS listener after its files
// were replaced. /metrics alone finds the new certificate, and a pair that cannot be used.
func TestReplacedFilesAreNoticedByMetrics(t *testing.T) {
	t.Parallel()
	cert, key := certificatetest.Write(t, t.TempDir())
	f := newFixture(t, func(c *Config) { c.NATSCert, c.NATSKey = cert, key })
	newCert, newKey := certificatetest.PairUntil(t, 2, "127.0.0.1", time.Unix(2_000_000_000, 0))
	_, otherKey := certificatetest.Pair(t, 3, "127.0.0.1")
	write := func(file string, text []byte) {
		t.Helper()
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	metrics := func() string {
		_, _, text := f.send("GET", "/metrics", nil, "")
		return string(text)
	}
	expires := fmt.Sprintf("edge_origin_certificate_expiry_timestamp_seconds{listener=\"nats\"} %v\n", 2e9)
	write(cert, newCert)
	write(key, newKey)
	f.eventually("the new certificate's time", func() bool { return strings.Contains(metrics(), expires) })

	const unused = "the new certificate is not used"
	before := strings.Count(f.logs.String(), unused)
	write(key, otherKey)
	f.eventually("the log has a line about the key", func() bool {
		return strings.Contains(metrics(), expires) && strings.Count(f.logs.String(), unused) == before+1
	})
}
