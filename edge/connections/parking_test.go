package connections

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// parkingServer serves what it is asked, with idle connections parked, until the test
// ends. Its answer says the method, and whether it came over TLS.
func parkingServer(t *testing.T, bounds Bounds, p Parking) (*ParkingListener, *http.Server) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveParking(t, Bound(ln, bounds, func(netip.Addr) bool { return false }, slog.New(slog.DiscardHandler)), p)
}

// serveParking is parkingServer for the connections that ln accepts.
func serveParking(t *testing.T, ln net.Listener, p Parking) (*ParkingListener, *http.Server) {
	t.Helper()
	l := Park(ln, p)
	server := &http.Server{
		ErrorLog: log.New(io.Discard, "", 0), ConnState: l.Observe, IdleTimeout: p.IdleTimeout, TLSConfig: p.TLS,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Method, " ", r.TLS != nil, " ", r.ProtoMajor)
		}),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
	return l, server
}

var manyConnections = Bounds{All: 10, Address: 10, Network: 10}

// awaitCount waits until count returns want.
func awaitCount(t *testing.T, what string, want int, count func() int) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); count() != want; <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections %s, want %d", count(), what, want)
		}
	}
}

// awaitParked waits until so many connections are parked.
func (l *ParkingListener) awaitParked(t *testing.T, want int) {
	t.Helper()
	awaitCount(t, "are parked", want, func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.parked)
	})
}

// dialParking connects to l, by TLS if it serves that.
func dialParking(t *testing.T, l *ParkingListener) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if l.TLS != nil {
		conn = tls.Client(conn, &tls.Config{RootCAs: x509.NewCertPool(), InsecureSkipVerify: true})
	}
	return conn, bufio.NewReader(conn)
}

// wantAnswer sends text and holds what the server answers.
func wantAnswer(t *testing.T, conn net.Conn, in *bufio.Reader, text, want string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != want {
		t.Fatalf("answered %q, %v, want %q", body, err, want)
	}
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// testTLS returns the configuration of a server with a certificate of httptest.
func testTLS(t *testing.T) *tls.Config {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
}

// TestIdleConnectionsAreParked holds that a connection is parked whenever it is idle,
// that its next request is answered nevertheless, and what becomes of it at last.
func TestIdleConnectionsAreParked(t *testing.T) {
	if !canPark {
		t.Skip("NOT TESTED: no connection is parked on this system")
	}
	for name, config := range map[string]*tls.Config{"TCP": nil, "TLS": testTLS(t)} {
		t.Run(name, func(t *testing.T) {
			l, server := parkingServer(t, Bounds{All: 3, Address: 2, Network: 3},
				Parking{After: time.Millisecond, IdleTimeout: time.Hour, TLS: config, HandshakeTimeout: time.Minute})
			first, in := dialParking(t, l)
			want := fmt.Sprint("GET ", config != nil, " 1")
			for range 3 {
				wantAnswer(t, first, in, get, want)
				l.awaitParked(t, 1)
			}
			second, in2 := dialParking(t, l)
			wantAnswer(t, second, in2, get, want)
			l.awaitParked(t, 2)
			if err := second.Close(); err != nil {
				t.Fatal(err)
			}
			awaitCount(t, "have places", 1, func() int { return int(l.Listener.(*Listener).taken.Load()) })
			third, in3 := dialParking(t, l) // has the place of the second
			wantAnswer(t, third, in3, get, want)
			l.awaitParked(t, 2)
			if err := server.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if n, err := in.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Error("a parked connection outlives the server")
			}
		})
	}
}

// TestPartsOfRequestsAreNotParked holds that what net/http has read of a next request is
// not lost.
func TestPartsOfRequestsAreNotParked(t *testing.T) {
	l, _ := parkingServer(t, manyConnections, Parking{After: time.Millisecond, IdleTimeout: time.Hour})
	const sent = 2
	first, in := dialParking(t, l)
	wantAnswer(t, first, in, get+get[:sent], "GET false 1")
	if canPark {
		for range 3 {
			idle, in := dialParking(t, l)
			wantAnswer(t, idle, in, get, "GET false 1")
		}
		l.awaitParked(t, 3) // so that the first one's time is over too
	}
	wantAnswer(t, first, in, get[sent:], "GET false 1")
}

// TestPartsOfTLSRecordsArePreserved holds that what TLS has read of a record is not lost
// when the connection is parked.
func TestPartsOfTLSRecordsArePreserved(t *testing.T) {
	if !canPark {
		t.Skip("NOT TESTED: no connection is parked on this system")
	}
	l, _ := parkingServer(t, manyConnections,
		Parking{After: time.Millisecond, IdleTimeout: time.Hour, TLS: testTLS(t), HandshakeTimeout: time.Minute})
	socket, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	delayed := &delayedConn{Conn: socket}
	conn := tls.Client(delayed, &tls.Config{RootCAs: x509.NewCertPool(), InsecureSkipVerify: true})
	in := bufio.NewReader(conn)
	wantAnswer(t, conn, in, get, "GET true 1")
	delayed.delays = true
	for range 2 { // each is a record
		if _, err := io.WriteString(conn, get); err != nil {
			t.Fatal(err)
		}
	}
	delayed.delays = false
	first := len(delayed.delayed) * 3 / 4 // the first, and half of the second
	if _, err := socket.Write(delayed.delayed[:first]); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, conn, in, "", "GET true 1")
	l.awaitParked(t, 1)
	if _, err := socket.Write(delayed.delayed[first:]); err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, conn, in, "", "GET true 1")
}

// delayedConn keeps what is written to it while delays is set.
type delayedConn struct {
	net.Conn
	delays  bool
	delayed []byte
}

func (c *delayedConn) Write(b []byte) (int, error) {
	if !c.delays {
		return c.Conn.Write(b)
	}
	c.delayed = append(c.delayed, b...)
	return len(b), nil
}

// TestCloseTellsParkedClients holds that a stop tells the clients of parked connections by
// TLS, lest they take it for a connection that was cut.
func TestCloseTellsParkedClients(t *testing.T) {
	if !canPark {
		t.Skip("NOT TESTED: no connection is parked on this system")
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			l, server := parkingServer(t, manyConnections,
				Parking{After: time.Millisecond, IdleTimeout: time.Hour, TLS: testTLS(t), HandshakeTimeout: time.Minute})
			socket, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			counted := &countedConn{Conn: socket}
			conn := tls.Client(counted, &tls.Config{RootCAs: x509.NewCertPool(), InsecureSkipVerify: true, MaxVersion: version})
			in := bufio.NewReader(conn)
			wantAnswer(t, conn, in, get, "GET true 1")
			l.awaitParked(t, 1)
			counted.read = 0
			if err := server.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) || counted.read == 0 {
				t.Errorf("a parked connection ends with %v, and TLS says %d bytes", err, counted.read)
			}
		})
	}
}

// countedConn counts the bytes that are read.
type countedConn struct {
	net.Conn
	read int
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read += n
	return n, err
}

// TestCloseWaitsForNoClient holds that a stop does not wait for parked clients that take
// nothing, to which TLS would write that it closes.
func TestCloseWaitsForNoClient(t *testing.T) {
	if !canPark {
		t.Skip("NOT TESTED: no connection is parked on this system")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	full := &fullListener{Listener: ln}
	l, server := serveParking(t, full,
		Parking{After: time.Millisecond, IdleTimeout: time.Hour, TLS: testTLS(t), HandshakeTimeout: time.Minute})
	for range 3 {
		conn, in := dialParking(t, l)
		wantAnswer(t, conn, in, get, "GET true 1")
	}
	l.awaitParked(t, 3)
	full.full.Store(true)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if n := full.waits.Load(); n != 0 {
		t.Errorf("%d connections waited to write", n)
	}
}

// TestCloseServesNoParkedClient holds that a request which comes as the listener closes is not
// passed on: its connection is set to wait for no client, so that a long answer would be cut.
func TestCloseServesNoParkedClient(t *testing.T) {
	if !canPark {
		t.Skip("NOT TESTED: no connection is parked on this system")
	}
	l, _ := parkingServer(t, manyConnections, Parking{After: time.Millisecond, IdleTimeout: time.Hour})
	conn, in := dialParking(t, l)
	wantAnswer(t, conn, in, get, "GET false 1")
	l.awaitParked(t, 1)
	setClosed := func(closed bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = closed
	}
	setClosed(true) // as Close does before any connection's deadline is over
	if _, err := io.WriteString(conn, get); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(in, nil); err == nil {
		resp.Body.Close()
		t.Errorf("a closed listener answers %s", resp.Status)
	}
	l.awaitParked(t, 0)
	setClosed(false)
}

// fullListener accepts connections that take nothing once full is set.
type fullListener struct {
	net.Listener
	full  atomic.Bool
	waits atomic.Int64 // writes that would wait, which fail instead
}

func (l *fullListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &fullConn{TCPConn: conn.(*net.TCPConn), listener: l}, nil
}

type fullConn struct {
	*net.TCPConn
	listener *fullListener
	closed   atomic.Bool
}

func (c *fullConn) Write(b []byte) (int, error) {
	if c.listener.full.Load() && !c.closed.Load() {
		c.listener.waits.Add(1)
		return 0, os.ErrDeadlineExceeded
	}
	return c.TCPConn.Write(b)
}

func (c *fullConn) Close() error {
	c.closed.Store(true)
	return c.TCPConn.Close()
}

// TestParkedConnectionsTimeOut holds that a parked connection ends when an idle one does.
func TestParkedConnectionsTimeOut(t *testing.T) {
	l, _ := parkingServer(t, manyConnections, Parking{After: time.Millisecond, IdleTimeout: 100 * time.Millisecond})
	conn, in := dialParking(t, l)
	wantAnswer(t, conn, in, get, "GET false 1")
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection ends with %v", err)
	}
	l.awaitParked(t, 0)
}

// TestHandshakesEnd holds that a handshake which waits for its certificate ends when its time
// is over and when the listener closes, and that Close does not wait for another end.
func TestHandshakesEnd(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"by its time": time.Millisecond, "by Close": time.Hour} {
		t.Run(name, func(t *testing.T) {
			begun, ended := make(chan struct{}, 1), make(chan error, 1)
			config := testTLS(t)
			config.Certificates = nil
			config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				begun <- struct{}{}
				<-hello.Context().Done()
				ended <- hello.Context().Err()
				return nil, hello.Context().Err()
			}
			l, server := parkingServer(t, manyConnections, Parking{IdleTimeout: time.Hour, TLS: config, HandshakeTimeout: timeout})
			for waits := false; !waits; { // the time may be over before the client has said a word
				conn, _ := dialParking(t, l)
				failed := make(chan error, 1)
				go func() { failed <- conn.(*tls.Conn).HandshakeContext(t.Context()) }()
				select {
				case <-begun:
					waits = true
				case err := <-failed:
					if err == nil {
						t.Fatal("a handshake without a certificate succeeded")
					}
					waits = len(begun) > 0
				}
			}
			want := context.DeadlineExceeded
			if timeout == time.Hour {
				want = context.Canceled
				if err := server.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if err := <-ended; !errors.Is(err, want) {
				t.Errorf("the handshake ends with %v, want %v", err, want)
			}
			awaitCount(t, "have places", 0, func() int { return int(l.Listener.(*Listener).taken.Load()) })
		})
	}
}

// TestParkingListenerSpeaksHTTP2 holds that net/http is given connections of HTTP/2 as
// it must have them, and those that do not speak TLS.
func TestParkingListenerSpeaksHTTP2(t *testing.T) {
	l, _ := parkingServer(t, manyConnections,
		Parking{After: time.Millisecond, IdleTimeout: time.Hour, TLS: testTLS(t), HandshakeTimeout: time.Minute})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "GET true 2" {
		t.Errorf("answered %q, %v", body, err)
	}
	plain, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := io.WriteString(plain, get); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(plain), nil); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP is answered %v, %v", resp, err)
	}
}
