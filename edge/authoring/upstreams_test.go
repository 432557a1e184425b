package authoring

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"testing"
)

// TestUpstreamsOfOneHost: whichever address of a host a module tries, at each of the host's ports
// the upstream answers that stands for it. A port that none stands for is refused.
func TestUpstreamsOfOneHost(t *testing.T) {
	list := make([]Upstream, 4)
	for i, address := range []string{"a.example:443", "b.example:443", "A.example:8443", "203.0.113.7:443"} {
		list[i] = Upstream{Address: address, Answers: map[string]UpstreamAnswer{"GET /": {Body: fmt.Appendf(nil, "%d", i)}}}
	}
	all, err := startUpstreams(t.TempDir(), list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := all.close(); err != nil {
			t.Error(err)
		}
	})
	for _, tt := range []struct {
		host   string
		byPort map[uint16]string // the upstream that answers
	}{
		{"a.example", map[uint16]string{443: "0", 8443: "2"}},
		{"b.example", map[uint16]string{443: "1"}},
	} {
		addrs, err := all.lookUp(t.Context(), tt.host)
		if err != nil || len(addrs) != 1 {
			t.Errorf("%s has the addresses %v, %v", tt.host, addrs, err)
		}
		for _, addr := range addrs {
			for port, want := range tt.byPort {
				to := netip.AddrPortFrom(addr, port)
				if err := all.check(to); err != nil {
					t.Errorf("%s at port %d: %v", tt.host, port, err)
					continue
				}
				resp, err := http.Get("http://" + all.redirect(to).String())
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != want {
					t.Errorf("%s at port %d is upstream %s, not %s, %v", tt.host, port, body, want, err)
				}
			}
			if err := all.check(netip.AddrPortFrom(addr, 80)); err == nil {
				t.Errorf("%s is let pass at port 80", tt.host)
			}
		}
	}
	if addrs, err := all.lookUp(t.Context(), "c.example"); err == nil {
		t.Errorf("c.example has the addresses %v", addrs)
	}
	if err := all.check(netip.MustParseAddrPort("203.0.113.7:443")); err != nil {
		t.Error(err)
	}
}
