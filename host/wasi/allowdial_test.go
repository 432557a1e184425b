package wasi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func newDialer(t *testing.T, c DialConfig) *Dialer {
	t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	d, err := NewDialer(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAllowDial(t *testing.T) {
	d := newDialer(t, DialConfig{Allow: []string{"API.example.com.:443", "192.0.2.1:80", "[2001:DB8:0::1]:80", "localhost:1"}})
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
		if got := d.allow[endpoint{plainHost(tt.host), tt.port}]; got != tt.want {
			t.Errorf("%s port %d: %t, want %t", tt.host, tt.port, got, tt.want)
		}
	}
}

// FuzzAllowDial holds that an accepted entry is found again under the host and port
// that it was given, and is a name that a resolver takes for one, or an address.
func FuzzAllowDial(f *testing.F) {
	for _, seed := range []string{"example.com:443", "[::1]:1", "1.2.3.4:65535", "[fe80::1%lo]:80", "::1:80", "a..b:1", "EXAMPLE.:9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		d, err := NewDialer(DialConfig{Allow: []string{entry}})
		if err != nil {
			return
		}
		host, port, err := net.SplitHostPort(entry)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || len(d.allow) != 1 || !d.allow[endpoint{plainHost(host), uint16(n)}] {
			t.Errorf("%q: %v, %v", entry, d.allow, err)
		}
		for e := range d.allow {
			if addr, err := netip.ParseAddr(e.host); err == nil && (addr.Zone() != "" || addr.Is4In6()) {
				t.Errorf("%q: took %s", entry, addr)
			}
		}
	})
}

// testHost is a Host of a call that never ends by itself.
type testHost struct{ ctx context.Context }

func (testHost) CountCalls(int)             {}
func (testHost) Output([]byte)              {}
func (testHost) Clock(bool) uint64          { return 1 }
func (testHost) Random([]byte)              {}
func (testHost) Sleep(time.Duration)        {}
func (testHost) Uncharged(f func())         { f() }
func (h testHost) Context() context.Context { return h.ctx }
func (testHost) Stop(err error)             { panic(err) }

// FuzzAddrinfo holds that, whatever a guest's memory contains, an answer lies where
// the guest has room for it, or nowhere.
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
		d := newDialer(t, DialConfig{
			Allow: []string{"api.example.com:443"},
			LookUp: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}, nil
			},
		})
		c := &Call{Host: testHost{t.Context()}, Dialer: d}
		defer c.Close()
		var args []uint64
		for _, a := range []uint32{name, nameLen, service, serviceLen, hints, list, most, n} {
			args = append(args, uint64(a))
		}
		if e := sockGetaddrinfo(c, memory, args); e == success && slice(memory, args[7], 4) == nil {
			t.Error("answered, with no room for it")
		}
	})
}

// TestAddrinfoCopiesNothingLong holds that a name or a service as large as a guest's
// memory is refused, and is neither copied nor logged.
func TestAddrinfoCopiesNothingLong(t *testing.T) {
	const room, long = 1 << 10, 1 << 20
	memory := make([]byte, room+long)
	copy(memory[64:], "api.example.com443")
	for _, tt := range []struct{ name, nameLen, service, serviceLen uint64 }{
		{room, long, 79, 3},
		{64, 15, room, long},
	} {
		log := new(bytes.Buffer)
		d := newDialer(t, DialConfig{Allow: []string{"api.example.com:443"}})
		d.config.Log = slog.New(slog.NewTextHandler(log, nil))
		c := &Call{Host: testHost{t.Context()}, Dialer: d}
		args := []uint64{tt.name, tt.nameLen, tt.service, tt.serviceLen, 0, 32, 1, 40}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if e := sockGetaddrinfo(c, memory, args); e != errAccess {
			t.Errorf("%d, want %d", e, errAccess)
		}
		runtime.ReadMemStats(&after)
		if copied := after.TotalAlloc - before.TotalAlloc; copied >= long || log.Len() == 0 || log.Len() > 1000 {
			t.Errorf("%d bytes were allocated, %d logged", copied, log.Len())
		}
	}
}

// TestLookupIsBounded: a name server that does not answer costs a call one second, and
// the guest is told, while most of the call's time is left.
func TestLookupIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c := &Call{Host: testHost{ctx}, Dialer: newDialer(t, DialConfig{
			Allow: []string{"api.example.com:443"},
			LookUp: func(ctx context.Context, name string) ([]netip.Addr, error) {
				<-ctx.Done()
				return nil, &net.DNSError{Err: ctx.Err().Error(), Name: name, IsTimeout: true}
			},
		})}
		defer c.Close()
		start := time.Now()
		for range 2 {
			if addrs, e := c.resolve("api.example.com", "443"); e != errTimedOut {
				t.Errorf("%v, %d, want %d", addrs, e, errTimedOut)
			}
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestNobodyJudges: without a Check a module connects to nothing, whatever it is allowed.
func TestNobodyJudges(t *testing.T) {
	d := newDialer(t, DialConfig{Allow: []string{"1.1.1.1:443"}})
	if d.allows(netip.MustParseAddrPort("1.1.1.1:443"), resolved{}) {
		t.Error("may be connected to")
	}
}

func TestLookUpErrno(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want errno
	}{
		{&net.DNSError{IsNotFound: true}, errUnreachable},
		{&net.DNSError{IsTimeout: true}, errTimedOut},
		{context.DeadlineExceeded, errTimedOut},
		{errors.New("other"), errUnreachable},
	} {
		if got := lookUpErrno(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}
