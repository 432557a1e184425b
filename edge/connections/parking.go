package connections

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Parking configures which connections are parked, and TLS.
type Parking struct {
	// After is how long a connection is idle before it is parked. 0: none is.
	After time.Duration
	// IdleTimeout is that of the http.Server, which a parked connection keeps to.
	IdleTimeout time.Duration
	// TLS is nil for plain TCP.
	TLS *tls.Config
	// HandshakeTimeout bounds a TLS handshake, whose context ends then, and with Close.
	HandshakeTimeout time.Duration
}

// ParkingListener is a net.Listener for an http.Server whose ConnState is Observe. For
// each connection of HTTP/1 net/http keeps a goroutine and two buffers, some 17 KiB, idle
// or not. A connection that is idle is therefore ended for net/http, but not closed, and
// accepted again when its client sends something.
type ParkingListener struct {
	net.Listener
	Parking
	accepted chan accepted
	ctx      context.Context // ends when no connection is accepted any more
	end      context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	parked map[*conn]bool // all are true
}

type accepted struct {
	conn net.Conn
	err  error
}

// socket is a *net.TCPConn, or embeds one.
type socket interface {
	halfCloser
	syscall.Conn
}

// halfCloser is a connection of which net/http closes its own half, lest a client that
// still sends what is refused sees a reset in place of the answer.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// Park returns a listener of the TCP connections that ln accepts. It owns ln.
func Park(ln net.Listener, p Parking) *ParkingListener {
	if !canPark {
		p.After = 0
	}
	l := &ParkingListener{Listener: ln, Parking: p, accepted: make(chan accepted), parked: map[*conn]bool{}}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.running.Go(l.acceptAll)
	return l
}

// Accept implements net.Listener.
func (l *ParkingListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, fmt.Errorf("accept: %w", net.ErrClosed)
	}
}

// Close implements net.Listener. It closes the parked connections too, and those that are
// shaking hands.
func (l *ParkingListener) Close() error {
	l.mu.Lock()
	l.closed = true
	for c := range l.parked {
		c.unpark()
	}
	l.mu.Unlock()
	l.end()
	err := l.Listener.Close()
	l.running.Wait()
	return err
}

// acceptAll accepts connections until the listener is closed.
func (l *ParkingListener) acceptAll() {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			if !l.pass(nil, err) {
				return
			}
			continue
		}
		tcp := accepted.(socket)
		c := &conn{halfCloser: tcp, listener: l, socket: &below{socket: tcp}}
		c.served = c
		if l.TLS == nil {
			l.pass(c, nil)
		} else {
			l.running.Go(c.handshake)
		}
	}
}

// pass hands a connection to Accept. If the listener is closed, it closes the connection
// and returns false.
func (l *ParkingListener) pass(c net.Conn, err error) bool {
	select {
	case l.accepted <- accepted{c, err}:
		return true
	case <-l.ctx.Done():
		if c != nil {
			_ = c.Close()
		}
		return false
	}
}

// Observe is the ConnState of the http.Server.
func (l *ParkingListener) Observe(c net.Conn, state http.ConnState) {
	if state != http.StateIdle || l.After == 0 {
		return
	}
	switch c := c.(type) {
	case *conn:
		c.idle = idleBegins
	case tlsConn:
		c.conn.idle = idleBegins
	}
}

// conn is a connection of HTTP/1 that is parked when it is idle. All but Close is called
// by one goroutine of net/http at a time.
type conn struct {
	halfCloser // socket, or TLS over it
	listener   *ParkingListener
	socket     *below
	served     net.Conn // what net/http is given: this, or a tlsConn

	idle  idleState
	until time.Time   // when idleness ends the connection
	parks atomic.Bool // Close parks it
}

// idleState says which call net/http makes next while it waits for a request.
type idleState uint8

const (
	notIdle    idleState = iota
	idleBegins           // net/http sets a deadline next
	idleWaits            // net/http reads next
)

// readBuffer is the size of net/http's buffer. What it asks for is smaller by what it
// has already: a connection with part of a request in that buffer is not parked.
const readBuffer = 4096

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	switch c.idle {
	case idleBegins:
		c.idle, c.until = idleWaits, t
		t = t.Add(c.listener.After - c.listener.IdleTimeout)
	case idleWaits:
		c.idle = notIdle
	}
	return c.halfCloser.SetReadDeadline(t)
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.halfCloser.Read(p)
	if err == nil || c.idle != idleWaits || n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	c.idle = notIdle
	if err := c.halfCloser.SetReadDeadline(c.until); err != nil {
		return 0, err
	}
	if len(p) != readBuffer {
		return c.halfCloser.Read(p)
	}
	c.parks.Store(true)
	return 0, io.EOF
}

// Close implements net.Conn. It parks a connection that is idle.
func (c *conn) Close() error {
	if c.parks.Swap(false) && c.park() {
		return nil
	}
	return c.halfCloser.Close()
}

// park keeps a connection until its client sends something. It returns false if the
// listener is closed.
func (c *conn) park() bool {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.parked[c] = true
	l.running.Go(func() {
		err := awaitReadable(c.socket)
		l.mu.Lock()
		delete(l.parked, c)
		closed := l.closed // then its deadline is over, and it is not to be served
		l.mu.Unlock()
		if err != nil || closed {
			_ = c.halfCloser.Close()
			return
		}
		l.pass(c.served, nil)
	})
	return true
}

// unpark makes the goroutine of a parked connection close it. TLS then tells the client so,
// and would wait up to five seconds for a client that reads nothing if it were not hurried.
func (c *conn) unpark() {
	c.socket.hurried.Store(true)
	_ = c.socket.SetReadDeadline(time.Unix(1, 0))
}

// below is the socket of a connection, below its TLS.
type below struct {
	socket
	hurried atomic.Bool // a write waits for no client
}

// Write implements net.Conn.
func (b *below) Write(p []byte) (int, error) {
	if b.hurried.Load() {
		return writeNow(b.socket, p)
	}
	return b.socket.Write(p)
}

// handshake passes the connection on with TLS over it: to be parked, or as it is for
// HTTP/2. net/http answers where the handshake has failed.
func (c *conn) handshake() {
	l := c.listener
	over := tls.Server(c.socket, l.TLS)
	ctx, cancel := context.WithTimeout(l.ctx, l.HandshakeTimeout)
	err := over.HandshakeContext(ctx)
	cancel()
	if protocol := over.ConnectionState().NegotiatedProtocol; err != nil || protocol != "" && protocol != "http/1.1" {
		l.pass(over, nil)
		return
	}
	c.halfCloser = over
	c.served = tlsConn{c, over}
	l.pass(c.served, nil)
}

// tlsConn is a conn over TLS, as net/http learns by the method ConnectionState.
type tlsConn struct {
	*conn
	tls *tls.Conn
}

// ConnectionState returns that of TLS.
func (c tlsConn) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }
