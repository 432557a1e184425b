package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"partneredge/edge/backoff"
)

// request that the load sends.
type request struct {
	method, path, body string
	status             int // expected
}

// mixed are requests through every module that reads or writes a partner's data.
var mixed = []request{
	{"GET", "agents/me", "", 200},
	{"GET", "coaching/insights?limit=3", "", 200},
	{"GET", "sentinels/firings?limit=3", "", 200},
	{"POST", "leads", `{"name":"Sam Okafor","email":"sam@example.com"}`, 201},
}

// agents are requests that a release with a bad agents module fails.
var agents = mixed[:1]

// load asks every node at an even rate until it is ended.
type load struct {
	stop    context.CancelFunc
	clients sync.WaitGroup

	mu     sync.Mutex // guards what follows
	asked  int
	failed []string // why
}

// clients of each node.
const clients = 2

func (b *bench) load(ctx context.Context, perSecond float64, requests []request) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{stop: stop}
	start := time.Now()
	for i, n := range b.nodes {
		for c := range clients {
			plan := plan{start: start, perSecond: perSecond / clients, offset: i + c, requests: requests}
			l.clients.Go(func() { l.ask(ctx, n.addr, b.key, plan) })
		}
	}
	return l
}

// plan is which requests a client sends and when, from the one at offset on.
type plan struct {
	start     time.Time
	perSecond float64
	offset    int
	requests  []request
}

// ask sends one request after the other. What is due is sent as soon as the one
// before is answered.
func (l *load) ask(ctx context.Context, addr, key string, p plan) {
	var c *client
	defer func() { c.close() }()
	for i := 0; ; i++ {
		due := p.start.Add(time.Duration(float64(i) / p.perSecond * float64(time.Second)))
		if backoff.Pause(ctx, time.Until(due)) != nil {
			return
		}
		var err error
		if c == nil {
			c, err = dial(addr, key)
		}
		r := p.requests[(i+p.offset)%len(p.requests)]
		status := 0
		if err == nil {
			status, err = c.do(r)
		}
		if err == nil && status != r.status {
			err = fmt.Errorf("status %d", status)
		}
		l.mu.Lock()
		l.asked++
		if err != nil {
			l.failed = append(l.failed, fmt.Sprintf("%s %s %s: %v", addr, r.method, r.path, err))
		}
		l.mu.Unlock()
		if err != nil {
			c.close()
			c = nil
		}
	}
}

// end stops asking; every request that was sent is answered by then, or failed.
func (l *load) end() (asked int, failed []string) {
	l.stop()
	l.clients.Wait()
	return l.asked, l.failed
}

// client is one connection. It sends nothing twice, as net/http's would.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	key  string
}

func dial(addr, key string) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn, bufio.NewReader(conn), key}, nil
}

func (c *client) do(r request) (status int, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return 0, err
	}
	req, err := http.NewRequest(r.method, "http://"+c.conn.RemoteAddr().String()+"/api/v2/public/"+r.path, strings.NewReader(r.body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if err := req.Write(c.conn); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(c.in, req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func (c *client) close() {
	if c != nil {
		_ = c.conn.Close()
	}
}
