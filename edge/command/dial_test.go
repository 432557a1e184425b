package command

import (
	"net/netip"
	"testing"
)

// Modules connect where webhooks may go, on any port.
func TestCheckDial(t *testing.T) {
	check := newCheckDial()
	for target, open := range map[string]bool{
		"1.1.1.1:25": true, "1.1.1.1:443": true, "[2606:4700:4700::1111]:80": true,
		"127.0.0.1:443": false, "10.0.0.1:443": false, "169.254.169.254:80": false, "168.63.129.16:80": false,
		"[::1]:443": false, "[::ffff:127.0.0.1]:443": false, "[fe80::1%lo]:443": false,
	} {
		if err := check(netip.MustParseAddrPort(target)); (err == nil) != open {
			t.Errorf("%s: %v", target, err)
		}
	}
}
