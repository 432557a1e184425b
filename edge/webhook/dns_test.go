package webhook

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// dnsServer is a real name server on loopback whose answers a test sets.
type dnsServer struct {
	conn net.PacketConn

	mu      sync.Mutex
	records map[string][]netip.Addr
	mute    map[string]bool // names that are never answered
}

func newDNS(t *testing.T) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := &dnsServer{
		conn:    conn,
		records: map[string][]netip.Addr{},
		mute:    map[string]bool{},
	}
	up := make(chan struct{})
	server := &dns.Server{PacketConn: conn, Handler: s, NotifyStartedFunc: func() { close(up) }}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.ActivateAndServe() }) // ends with Shutdown
	<-up
	t.Cleanup(func() {
		_ = server.Shutdown()
		serving.Wait()
	})
	return s
}

func (s *dnsServer) set(name string, addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[name] = nil
	for _, addr := range addrs {
		s.records[name] = append(s.records[name], netip.MustParseAddr(addr))
	}
}

// silence leaves questions for a name without an answer.
func (s *dnsServer) silence(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute[name] = true
}

func (s *dnsServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *dnsServer) ServeDNS(w dns.ResponseWriter, asked *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := asked.Question[0]
	name := strings.TrimSuffix(strings.ToLower(q.Name), ".")
	if s.mute[name] {
		return
	}
	addrs, known := s.records[name]
	reply := new(dns.Msg).SetReply(asked)
	if !known {
		reply.Rcode = dns.RcodeNameError
	}
	for _, addr := range addrs {
		head := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET}
		switch {
		case addr.Is4() && q.Qtype == dns.TypeA:
			reply.Answer = append(reply.Answer, &dns.A{Hdr: head, A: addr.AsSlice()})
		case addr.Is6() && q.Qtype == dns.TypeAAAA:
			reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: head, AAAA: addr.AsSlice()})
		}
	}
	_ = w.WriteMsg(reply) // who asked asks again
}
