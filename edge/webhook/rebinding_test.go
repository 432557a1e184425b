package webhook

import (
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/deliveries"
	"partneredge/wasm/targeturl"
)

// What a name may become once it is registered, as the sender meets it at each
// try. Of loopback, 127.0.0.1 stands for a public address here and 127.0.0.2 for
// one that is not, behind which something listens on the same port.
func TestRebindingOfATarget(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: a second address of loopback, which only Linux has unasked")
	}
	const host, public, inside = "hook.example.com", "127.0.0.1", "127.0.0.2"
	const refused = -1
	type try struct {
		answers []string // of DNS
		status  int      // in the log; refused: by the guard
	}
	for _, test := range []struct {
		name  string
		tries []try
		want  store.State
	}{
		{"never", []try{{[]string{public}, 500}, {[]string{public}, 200}}, store.StateDelivered},
		{"before the first try", []try{{[]string{inside}, refused}, {[]string{inside}, refused}, {[]string{inside}, refused}}, store.StateDead},
		{"between two tries", []try{{[]string{public}, 500}, {[]string{inside}, refused}, {[]string{inside}, refused}}, store.StateDead},
		{"and back again", []try{{[]string{public}, 500}, {[]string{inside}, refused}, {[]string{public}, 200}}, store.StateDelivered},
		{"to several", []try{{[]string{inside, "10.0.0.1", "fd00:ec2::254"}, refused}}, store.StatePending},
		{"to both, inside first", []try{{[]string{inside, public}, 200}}, store.StateDelivered},
		{"to both, public first", []try{{[]string{public, inside}, 200}}, store.StateDelivered},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var status atomic.Int32
			endpoint := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Connection", "close") // so that each try looks the name up
				w.WriteHeader(int(status.Load()))
			})
			endpoint.TLS.NextProtos = []string{"http/1.1"}
			_, port, err := net.SplitHostPort(endpoint.Listener.Addr().String())
			must(t, err)
			forbidden := net.JoinHostPort(inside, port)
			reached := connections(t, forbidden)
			dns := newDNS(t)
			guard := NewGuard(GuardConfig{Resolver: dns.resolver(), LookupTimeout: time.Minute, Allow: []netip.Prefix{netip.MustParsePrefix(public + "/32")}})
			f := newFixture(t, t.TempDir()+"/origin.db", Config{
				CAFile: caFile(t, endpoint), Guard: guard, Schedule: []time.Duration{time.Hour, time.Hour}, HoldMost: time.Millisecond,
			})
			target := "https://" + net.JoinHostPort(host, port) + "/hook" // the certificate of httptest names the host

			dns.set(host, public, inside)
			if reason, err := guard.Check(t.Context(), target); err != nil || reason != targeturl.HostNotPublic {
				t.Errorf("both addresses at registration: %q %v", reason, err)
			}
			dns.set(host, public)
			if reason, err := guard.Check(t.Context(), target); err != nil || reason != "" {
				t.Fatalf("at registration: %q %v", reason, err)
			}
			sub := f.subscribe(target)
			var d store.Delivery
			for i, try := range test.tries {
				dns.set(host, try.answers...)
				status.Store(int32(try.status))
				if i == 0 {
					d.EventID = f.fire()
				} else if _, err := f.db.RetryDelivery(t.Context(), d.ID); err != nil {
					t.Fatal(err)
				}
				until(t, "the try is written", func() bool {
					d = f.deliveries(deliveries.Filter{EventID: d.EventID})[0]
					return d.Attempts == i+1
				})
				a := f.tries(d)[i]
				want, text := try.status, ""
				if want == refused {
					want, text = 0, "refused by guard: host_not_public: "+forbidden
				}
				if a.Status != want || a.Error != text {
					t.Errorf("try %d is logged with %d %q, want %d %q", i+1, a.Status, a.Error, want, text)
				}
				listed := len(f.deliveries(deliveries.Filter{SubscriptionID: sub.ID, Refused: true})) == 1
				now, err := f.db.Subscription(t.Context(), sub.ID)
				if must(t, err); listed != (try.status == refused) || now.FailingFrom.IsZero() != (try.status == 200) {
					t.Errorf("after try %d it is listed as refused: %t; failing from %v", i+1, listed, now.FailingFrom)
				}
			}
			if d.State != test.want {
				t.Errorf("the delivery is %s, want %s", d.State, test.want)
			}
			if n := reached.Load(); n != 0 {
				t.Errorf("the address inside was called %d times", n)
			}
		})
	}
}

// connections counts who connects to an address.
func connections(t *testing.T, address string) *atomic.Int32 {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must(t, err)
	reached := &atomic.Int32{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return reached
}
