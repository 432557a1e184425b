//go:build unix

package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"partneredge/wasm/abi"
)

// peer starts a server on loopback that answers each connection by serve.
func peer(t *testing.T, serve func(net.Conn)) (port string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		group.Wait()
	})
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// greet repeats what it was sent.
func greet(conn net.Conn) {
	said, err := io.ReadAll(conn)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(conn, "%s, you said", said)
}

// hang answers nothing, and closes once the other side has.
func hang(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// never returns a function that does not answer until the test ends.
func never(t *testing.T) func(net.Conn) { return func(net.Conn) { <-t.Context().Done() } }

// names is a resolver whose answers may change.
type names struct {
	mu    sync.Mutex
	addrs map[string][]string
	asked []string
}

func (n *names) lookUp(_ context.Context, name string) (list []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, name)
	for _, addr := range n.addrs[name] {
		list = append(list, netip.MustParseAddr(addr))
	}
	if len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return list, nil
}

// openDialer opens testdata/dialer. Modules may connect to 127.0.0.1, and to nothing
// else.
func openDialer(t *testing.T, n *names, limits Limits, allow ...string) (*Module, *LogBuffer) {
	t.Helper()
	log, ctx := &LogBuffer{}, context.Background()
	r, err := New(ctx, Config{CacheDir: CacheDir, Log: slog.New(slog.NewTextHandler(log, nil)), LookUp: n.lookUp,
		CheckDial: func(addr netip.AddrPort) error {
			if addr.Addr() == netip.MustParseAddr("127.0.0.1") {
				return nil
			}
			return errors.New("not an address of these tests")
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if limits.CPU == 0 {
		limits.CPU = 10 * time.Second
	}
	if limits.Wall == 0 {
		limits.Wall = time.Minute
	}
	m, err := r.Open(ctx, Build(t, "./testdata/dialer"), Manifest{Name: "dialer", AllowDial: allow}, Capabilities{}, limits)
	if err != nil {
		t.Fatal(err)
	}
	return m, log
}

func dial(m *Module, path, to string) (string, error) {
	var resp abi.Response
	err := m.Call(context.Background(), &abi.Request{Method: "GET", Path: path, Body: []byte(to)}, &resp)
	return string(resp.Body), err
}

// waitClosed waits until no more descriptors are open than before: the test's own
// servers close theirs some time after the guest did.
func waitClosed(t *testing.T, before int) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for n := descriptors(t); n > before; n = descriptors(t) {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("%d descriptors, %d before", n, before)
		}
	}
}

func TestSockets(t *testing.T) {
	open, silent := peer(t, greet), peer(t, hang)
	quick := peer(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "quick") })
	n := &names{addrs: map[string][]string{
		"api.example.com":     {"127.0.0.1"},
		"both.example.com":    {"127.0.0.2", "127.0.0.1"}, // the first is refused
		"mapped.example.com":  {"::ffff:127.0.0.1"},
		"inward.example.com":  {"10.0.0.1"},
		"meta.example.com":    {"169.254.169.254"},
		"azure.example.com":   {"168.63.129.16"},
		"local6.example.com":  {"::1"},
		"nat64.example.com":   {"64:ff9b::7f00:1"},
		"private.example.com": {"fd00::1"},
		"other.example.com":   {"127.0.0.1"},
	}}
	allow := []string{"127.0.0.1:" + silent, "127.0.0.1:" + quick, "169.254.169.254:80", "[::1]:" + open, "nowhere.example.com:443"}
	for name := range n.addrs {
		if name != "other.example.com" {
			allow = append(allow, strings.ToUpper(name)+".:"+open)
		}
	}
	m, log := openDialer(t, n, Limits{}, allow...)
	for _, tt := range dialCases(open, silent, quick) {
		t.Run(tt.name, func(t *testing.T) {
			got, err := dial(m, tt.path, tt.to)
			if err != nil || !strings.Contains(strings.ToLower(got), tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	if n := log.Count("module refused a connection"); n != 3 { // target, address, kind
		t.Errorf("logged %d times, want 3:\n%s", n, log)
	}
	for _, name := range n.asked {
		if name == "other.example.com" || strings.HasSuffix(name, ".") || name != strings.ToLower(name) {
			t.Errorf("looked up %q", name)
		}
	}
	pristine(t, m)
}

type dialCase struct{ name, path, to, want string }

// dialCases returns what the guest of TestSockets does, given the ports of its peers.
func dialCases(open, silent, quick string) []dialCase {
	const (
		answer  = "hello, you said"
		refused = "permission denied"
	)
	return []dialCase{
		{"name", "/hello", "api.example.com:" + open, answer},
		{"name in capitals", "/hello", "API.example.COM:" + open, answer},
		{"name with a dot", "/hello", "api.example.com.:" + open, answer},
		{"next address", "/hello", "both.example.com:" + open, answer},
		{"mapped answer", "/hello", "mapped.example.com:" + open, answer},
		{"two at once", "/race", "127.0.0.1:" + silent + " 127.0.0.1:" + quick, "quick"},
		{"timeout of its own", "/patience", "127.0.0.1:" + silent, "i/o timeout"},
		{"name not allowed", "/hello", "other.example.com:" + open, refused},
		{"port not allowed", "/hello", "api.example.com:" + silent, refused},
		{"address of an allowed name", "/hello", "127.0.0.1:" + open, refused},
		{"name that is not there", "/hello", "nowhere.example.com:443", "host is unreachable"},
		{"name bound to a private address", "/hello", "inward.example.com:" + open, refused},
		{"name bound to metadata", "/hello", "meta.example.com:" + open, refused},
		{"name bound to Azure's wire", "/hello", "azure.example.com:" + open, refused},
		{"name bound to loopback", "/hello", "local6.example.com:" + open, refused},
		{"name bound to NAT64", "/hello", "nat64.example.com:" + open, refused},
		{"name bound to a unique local address", "/hello", "private.example.com:" + open, refused},
		{"allowed and not public", "/raw", "169.254.169.254:80", refused},
		{"allowed and loopback", "/raw", "[::1]:" + open, refused},
		{"address as it is", "/raw", "127.0.0.1:" + silent, "connected"},
		{"address as it is, not allowed", "/raw", "127.0.0.1:" + open, refused},
		{"IPv4 mapped into IPv6", "/raw", "[::ffff:127.0.0.1]:" + silent, refused},
		{"listen", "/listen", "127.0.0.1:1", refused},
		{"listen where it may connect to", "/listen", "127.0.0.1:" + silent, "not supported"},
		{"UDP", "/udp", "127.0.0.1:" + silent, "not supported"},
		{"name server of its own", "/resolver", "127.0.0.1:" + silent, "not supported"},
		{"wild pointers", "/wild", "", "refused"},
		{"nothing kept", "/kept", "", "nothing"},
	}
}

// TestSocketsThatWait holds that a guest whose calls block works as well.
func TestSocketsThatWait(t *testing.T) {
	port := peer(t, greet)
	m, _ := openDialer(t, &names{}, Limits{}, "127.0.0.1:"+port)
	for range 3 {
		if got, err := dial(m, "/waiting", "127.0.0.1:"+port); err != nil || got != "hello, you said" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	to := unanswered(t)
	m, _ = openDialer(t, &names{}, Limits{}, to)
	for _, path := range []string{"/waiting", "/hello"} {
		if got, err := dial(m, path, to); err != nil || !strings.Contains(strings.ToLower(got), "connection refused") {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
}

// unanswered returns an address on loopback that is in use and where nobody listens.
func unanswered(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return "127.0.0.1:" + strconv.Itoa(addr.(*unix.SockaddrInet4).Port)
}

// TestRebinding holds that a name is judged at each dial, by the address that it then
// has.
func TestRebinding(t *testing.T) {
	port := peer(t, greet)
	n := &names{addrs: map[string][]string{"api.example.com": {"127.0.0.1"}}}
	m, _ := openDialer(t, n, Limits{}, "api.example.com:"+port)
	to := "api.example.com:" + port
	if got, err := dial(m, "/hello", to); err != nil || got != "hello, you said" {
		t.Fatalf("got %q, %v", got, err)
	}
	for _, addr := range []string{"127.0.0.3", "10.1.2.3", "169.254.169.254", "::1", "fe80::1%lo", "0.0.0.0"} {
		n.mu.Lock()
		n.addrs["api.example.com"] = []string{addr}
		n.mu.Unlock()
		if got, err := dial(m, "/hello", to); err != nil || !strings.Contains(strings.ToLower(got), "permission denied") {
			t.Errorf("%s: got %q, %v", addr, got, err)
		}
	}
	// An address that was looked up in one request is unknown to the next.
	if got, err := dial(m, "/raw", "127.0.0.1:"+port); err != nil || !strings.Contains(strings.ToLower(got), "permission denied") {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestRedirect holds that a test can stand for a server, and that an address is judged
// as the module asked for it.
func TestRedirect(t *testing.T) {
	port := peer(t, greet)
	ctx := context.Background()
	n := &names{addrs: map[string][]string{"api.example.com": {"192.0.2.1"}, "other.example.com": {"192.0.2.2"}}}
	r, err := New(ctx, Config{CacheDir: CacheDir, LookUp: n.lookUp,
		CheckDial: func(addr netip.AddrPort) error {
			if addr != netip.MustParseAddrPort("192.0.2.1:443") {
				return fmt.Errorf("%s is not to be connected to", addr)
			}
			return nil
		},
		Redirect: func(netip.AddrPort) netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:" + port) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(ctx)
	m, err := r.Open(ctx, Build(t, "./testdata/dialer"), Manifest{Name: "dialer", AllowDial: []string{"api.example.com:443", "other.example.com:443"}},
		Capabilities{}, Limits{CPU: 10 * time.Second, Wall: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := dial(m, "/hello", "api.example.com:443"); err != nil || got != "hello, you said" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, to := range []string{"other.example.com:443", "127.0.0.1:" + port} {
		if got, err := dial(m, "/hello", to); err != nil || !strings.Contains(strings.ToLower(got), "permission denied") {
			t.Errorf("%s: got %q, %v", to, got, err)
		}
	}
}

// TestNamesAreLookedUpOnceInACall: also those that have no address.
func TestNamesAreLookedUpOnceInACall(t *testing.T) {
	n := &names{addrs: map[string][]string{"api.example.com": {"127.0.0.1"}}}
	m, _ := openDialer(t, n, Limits{Wall: time.Minute}, "api.example.com:1", "nowhere.example.com:443")
	for _, to := range []string{"api.example.com:1", "nowhere.example.com:443"} {
		n.asked = nil
		if _, err := dial(m, "/again", to); err != nil {
			t.Fatal(err)
		}
		if len(n.asked) != 1 {
			t.Errorf("%s was looked up %d times", to, len(n.asked))
		}
	}
}

func TestSocketsNotGranted(t *testing.T) {
	port := peer(t, greet)
	m, log := openDialer(t, &names{}, Limits{})
	for _, path := range []string{"/hello", "/raw", "/listen", "/udp", "/many"} {
		if got, err := dial(m, path, "127.0.0.1:"+port); err != nil || !strings.Contains(strings.ToLower(got), "not supported") {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	if n := log.Count("its manifest has no allow_dial"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log)
	}
}

// TestSocketsEndWithTheRequest holds that a connection ends with its request, whether
// the guest closes it or not.
func TestSocketsEndWithTheRequest(t *testing.T) {
	gone := make(chan struct{}, 100)
	port := peer(t, func(conn net.Conn) {
		hang(conn)
		gone <- struct{}{}
	})
	m, _ := openDialer(t, &names{}, Limits{Sandboxes: 1}, "127.0.0.1:"+port)
	if _, err := dial(m, "/", ""); err != nil { // so that there is a sandbox
		t.Fatal(err)
	}
	before := descriptors(t)
	for range 10 {
		if got, err := dial(m, "/keep", "127.0.0.1:"+port); err != nil || got != "kept" {
			t.Fatalf("got %q, %v", got, err)
		}
		<-gone
		if got, err := dial(m, "/kept", ""); err != nil || got != "nothing" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if n := m.Stats().Discarded; n != 0 {
		t.Errorf("%d sandboxes discarded", n)
	}
	pristine(t, m)
	waitClosed(t, before)
}

// TestSocketsWaitUntilTheDeadline holds that a server that does not answer costs the call
// time, but no processor time.
func TestSocketsWaitUntilTheDeadline(t *testing.T) {
	port := peer(t, never(t))
	to := "127.0.0.1:" + port
	m, _ := openDialer(t, &names{}, Limits{}, to)
	for _, path := range []string{"/hello", "/waiting"} {
		if _, err := askWithin(time.Second, m, path, to); ReasonOf(err) != WallDeadline {
			t.Errorf("%s: %v, want %s", path, err, WallDeadline)
		}
	}
	if got, err := dial(m, "/", ""); err != nil || got != "nothing to do" {
		t.Errorf("then: got %q, %v", got, err)
	}
	pristine(t, m)
}

// TestSocketsCancelled holds that waiting for a socket ends when the caller gives up.
func TestSocketsCancelled(t *testing.T) {
	connected := make(chan struct{}, 2)
	port := peer(t, func(conn net.Conn) {
		connected <- struct{}{}
		never(t)(conn)
	})
	to := "127.0.0.1:" + port
	m, _ := openDialer(t, &names{}, Limits{Wall: 10 * time.Minute}, to)
	for _, path := range []string{"/hello", "/waiting"} {
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-connected
			cancel()
		}()
		var resp abi.Response
		err := m.Call(ctx, &abi.Request{Method: "GET", Path: path, Body: []byte(to)}, &resp)
		cancel()
		if ReasonOf(err) != Canceled {
			t.Errorf("%s: %v, want %s", path, err, Canceled)
		}
	}
	pristine(t, m)
}

func TestSocketLimits(t *testing.T) {
	port := peer(t, func(conn net.Conn) {
		for b := make([]byte, 64<<10); ; {
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	})
	to := "127.0.0.1:" + port
	m, _ := openDialer(t, &names{}, Limits{Sandboxes: 1, Wait: time.Minute, Sockets: 5, SocketBytes: 1 << 20}, to)
	if _, err := dial(m, "/", ""); err != nil { // so that there is a sandbox
		t.Fatal(err)
	}
	before := descriptors(t)
	for _, path := range []string{"/many", "/churn"} {
		if got, err := dial(m, path, to); err != nil || !strings.HasPrefix(strings.ToLower(got), "5 sockets, then too many open files") {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	if _, err := dial(m, "/stubborn", to); ReasonOf(err) != HostCalls {
		t.Errorf("/stubborn: %v, want %s", err, HostCalls)
	}
	if _, err := dial(m, "/greedy", to); ReasonOf(err) != SocketBytes {
		t.Errorf("/greedy: %v, want %s", err, SocketBytes)
	}
	if got, err := dial(m, "/", ""); err != nil || got != "nothing to do" {
		t.Errorf("then: got %q, %v", got, err)
	}
	pristine(t, m)
	waitClosed(t, before)
}
