package wasi

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestNextNameServerIsAsked: the first query of each type gets no answer, as from a name server
// that is down, and the next one is asked long before the caller's time is over.
func TestNextNameServerIsAsked(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	asked := map[dns.Question]int{}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		mu.Lock()
		question := m.Question[0]
		asked[question]++
		first := asked[question] == 1
		mu.Unlock()
		if first {
			return
		}
		answer := new(dns.Msg)
		answer.SetReply(m)
		if question.Qtype == dns.TypeA {
			answer.Answer = []dns.RR{&dns.A{
				Hdr: dns.RR_Header{Name: question.Name, Rrtype: question.Qtype, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 1)}}
		}
		_ = w.WriteMsg(answer)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ActivateAndServe() })
	defer serving.Wait()
	defer conn.Close()

	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}
	// A busy machine may answer a query too late, so that only one lookup must succeed. Each is of
	// a name of its own, whose first queries get no answer.
	var addrs []netip.Addr
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // the resolver's own patience is 5 s
		addrs, err = lookUpBy(ctx, dial, fmt.Sprintf("api%d.example.com", i))
		cancel()
		if err == nil {
			break
		}
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	if want := []netip.Addr{netip.MustParseAddr("192.0.2.1")}; err != nil || !slices.Equal(addrs, want) {
		t.Errorf("%v, %v, want %v", addrs, err, want)
	}
}
