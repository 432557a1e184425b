package origin

import (
	"strings"
	"testing"

	"partneredge/edge/certificate/certificatetest"
)

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	cert, key := certificatetest.Write(t, t.TempDir())
	f := newFixture(t, func(c *Config) { c.AdminCert, c.AdminKey = cert, key })
	certificatetest.OnlyTLS13(t, strings.TrimPrefix(f.AdminURL(), "https://"), certificatetest.Roots(t, cert))
}
