package webhook

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
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
	done := make(chan struct{})
	go func() { defer close(done); s.serve() }()
	t.Cleanup(func() { conn.Close(); <-done })
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

func (s *dnsServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		if reply, ok := s.answer(query); ok {
			_, _ = s.conn.WriteTo(reply, from)
		}
	}
}

func (s *dnsServer) answer(query dnsmessage.Message) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := query.Questions[0]
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	if s.mute[name] {
		return nil, false
	}
	addrs, known := s.records[name]
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: query.ID, Response: true, RecursionAvailable: true},
		Questions: query.Questions,
	}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, addr := range addrs {
		head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 0}
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			head.Type = dnsmessage.TypeA
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			head.Type = dnsmessage.TypeAAAA
			reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	packed, err := reply.Pack()
	return packed, err == nil
}
