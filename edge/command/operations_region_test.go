package command

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
)

// regionServer gives a region of TestOperationsThreeRegions a NATS server of its own, as
// OPERATIONS.md says, and revokes it.
func (h *hosts) regionServer() {
	h.t.Helper()
	var server, said string
	for _, b := range operationsBlocks(h.t, "A NATS server in each region") {
		starts := b.host == "eunats" && b.kind == "sh"
		if starts {
			h.startsIn("eunats", "etc/nats", "region.conf")
		}
		b.text = strings.ReplaceAll(b.text, "SERVER", server)
		said = h.do(b)
		if starts {
			server = h.connectedServer("eu")
		}
	}
	if server == "" || !strings.Contains(said, server) {
		h.t.Errorf("revoking the server %q said %s", server, said)
	}
}

// startsIn makes the paths in a configuration of NATS those that they are for a server
// which starts in dir.
func (h *hosts) startsIn(host, dir, file string) {
	h.t.Helper()
	path := h.path(host, dir+"/"+file)
	text, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	dir = h.path(host, dir)
	there := strings.NewReplacer(`credentials: "`, `credentials: "`+dir+"/", `"./`, `"`+dir+"/").Replace(string(text))
	if err := os.WriteFile(path, []byte(there), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// connectedServer waits until the origin takes a region's server, and returns its id.
func (h *hosts) connectedServer(region string) (id string) {
	h.t.Helper()
	admin, err := localClient(h.path("origin", "var/lib/edge-origin"))
	if err != nil {
		h.t.Fatal(err)
	}
	await(h.t, "the server of "+region, func() bool {
		servers, err := listRegions(h.t.Context(), admin)
		if err != nil || len(servers) != 1 {
			h.t.Fatalf("servers of regions: %+v, %v", servers, err)
		}
		id = servers[0].ID
		return servers[0].Region == region && servers[0].Connected != nil && *servers[0].Connected
	})
	return id
}

// trustOrigin returns a configuration of TLS that trusts the certificate of the origin.
func (h *hosts) trustOrigin() *tls.Config {
	h.t.Helper()
	roots := x509.NewCertPool()
	if text, err := os.ReadFile(h.path("origin", "etc/edge/tls.crt")); err != nil || !roots.AppendCertsFromPEM(text) {
		h.t.Fatalf("the origin's certificate: %v", err)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
}
