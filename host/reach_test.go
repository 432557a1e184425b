package host

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"partneredge/wasm/abi"
)

func TestReach(t *testing.T) {
	r, err := parseReach([]string{"API.example.com.:443", "192.0.2.1:80", "[2001:DB8:0::1]:80", "localhost:1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host string
		port uint16
		want bool
	}{
		{"api.example.com", 443, true},
		{"Api.Example.com.", 443, true},
		{"api.example.com", 80, false},
		{"example.com", 443, false},
		{"x.api.example.com", 443, false},
		{"192.0.2.1", 80, true},
		{"2001:db8::1", 80, true},
		{"2001:db8::2", 80, false},
		{"::ffff:192.0.2.1", 80, false},
		{"192.0.2.01", 80, false},
	} {
		if got := r[endpoint{plainHost(tt.host), tt.port}]; got != tt.want {
			t.Errorf("%s port %d: %t, want %t", tt.host, tt.port, got, tt.want)
		}
	}
}

// FuzzReach: what is taken is found again under the name that it was given, and
// is a name that a resolver takes for one, or an address.
func FuzzReach(f *testing.F) {
	for _, seed := range []string{"example.com:443", "[::1]:1", "1.2.3.4:65535", "[fe80::1%lo]:80", "::1:80", "a..b:1", "EXAMPLE.:9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		r, err := parseReach([]string{entry})
		if err != nil {
			return
		}
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || len(r) != 1 || !r[endpoint{plainHost(host), uint16(n)}] {
			t.Errorf("%q: %v, %v", entry, r, err)
		}
		for e := range r {
			if addr, err := netip.ParseAddr(e.host); err == nil && (addr.Zone() != "" || addr.Is4In6()) {
				t.Errorf("%q: took %s", entry, addr)
			}
		}
	})
}

// FuzzAddrinfo: whatever a guest's memory holds, an answer lies where the guest
// has room for it, or nowhere.
func FuzzAddrinfo(f *testing.F) {
	whole := make([]byte, 256)
	copy(whole, "api.example.com\x00443\x00")
	for at, v := range map[int]uint32{ // list -> answer -> address -> data, then the next answer
		64: 68, 68 + 12: 140, 68 + 24: 100, 140 + 4: 26, 140 + 8: 180,
		100 + 12: 156, 156 + 4: 26, 156 + 8: 210,
	} {
		binary.LittleEndian.PutUint32(whole[at:], v)
	}
	f.Add(whole, uint32(0), uint32(16), uint32(16), uint32(4), uint32(32), uint32(64), uint32(8), uint32(250))
	f.Fuzz(func(t *testing.T, memory []byte, name, nameLen, service, serviceLen, hints, list, most, n uint32) {
		m := &Module{runtime: &Runtime{epoch: time.Now(), lookUp: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, nil
		}}, reach: reach{{"api.example.com", 443}: true}, limits: Limits{}.withDefaults()}
		m.refused.Store(^uint32(0)) // nothing is logged
		c := &call{m: m}
		c.begin(context.Background(), abi.Principal{}, 0)
		defer c.end()
		var args []uint64
		for _, a := range []uint32{name, nameLen, service, serviceLen, hints, list, most, n} {
			args = append(args, uint64(a))
		}
		if e := sockGetaddrinfo(c, memory, args); e == wasiOK && at(memory, args[7], 4) == nil {
			t.Error("answered, with no room for it")
		}
	})
}
