package httpfront_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/httpfront"
)

// TestRefusedBodies sends bodies that are not read, over connections that close because
// the client or the server wants it. The client must see the answer even if it is still
// writing.
func TestRefusedBodies(t *testing.T) {
	refuse := func(_ *abi.Request, resp *abi.Response) error {
		resp.Status, resp.Body = http.StatusUnauthorized, []byte(`{"error":"unauthorized"}`)
		return nil
	}
	tests := []struct {
		name   string
		gate   caller
		size   int
		status int
	}{
		{"gate", refuse, httpfront.MaxBody, http.StatusUnauthorized},
		{"a byte more", pass, httpfront.MaxBody + 1, http.StatusRequestEntityTooLarge},
		{"three times as much", pass, 3 * httpfront.MaxBody, http.StatusRequestEntityTooLarge},
		{"more than is drained", pass, 1 << 20, http.StatusRequestEntityTooLarge},
	}
	for _, test := range tests {
		for _, line := range []string{"HTTP/1.1\r\nConnection: close", "HTTP/1.0\r\nConnection: close", "HTTP/1.1"} {
			t.Run(test.name+"/"+strings.ReplaceAll(line, "\r\n", " "), func(t *testing.T) {
				front := newFront(test.gate, nil, nil)
				front.HangUp = func(*http.Request, int, httpfront.Refusal) bool { return line == "HTTP/1.1" }
				server := httptest.NewServer(front)
				defer server.Close()
				conn, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				wrote := make(chan error, 1)
				go func() {
					_, err := fmt.Fprintf(conn, "POST /x %s\r\nHost: x\r\nContent-Length: %d\r\n\r\n", line, test.size)
					for sent := 0; sent < test.size && err == nil; {
						var n int
						n, err = conn.Write(bytes.Repeat([]byte{' '}, min(8<<10, test.size-sent)))
						sent += n
					}
					wrote <- err
				}()
				if test.size < 256<<10 { // a reset in the meantime would take the answer with it
					if err := <-wrote; err != nil {
						t.Errorf("write body: %v", err)
					}
				}
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != test.status {
					t.Errorf("status %d, %s, %v; want %d", resp.StatusCode, body, err, test.status)
				}
				if !resp.Close {
					t.Error("the connection stays open")
				}
			})
		}
	}
}

// exchangeConn is a client's connection that is written and read by hand.
type exchangeConn struct {
	*testing.T
	net.Conn
	reader *bufio.Reader
}

// dialServer connects to a server that never gives up a client by itself.
func dialServer(t *testing.T, front http.Handler) *exchangeConn {
	t.Helper()
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return &exchangeConn{t, conn, bufio.NewReader(conn)}
}

func (c *exchangeConn) send(text string) {
	c.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.Fatal(err)
	}
}

// receive reads an answer, and whether the connection ends with it.
func (c *exchangeConn) receive() (status int, body string, closes bool) {
	c.Helper()
	resp, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.Fatal(err)
	}
	return resp.StatusCode, string(got), resp.Close
}

// ends fails the test unless the server ends the connection without a further byte.
func (c *exchangeConn) ends() {
	c.Helper()
	if rest, err := io.ReadAll(c.reader); err != nil || len(rest) > 0 {
		c.Errorf("in place of an end: %q, %v", rest, err)
	}
}

// TestRefusalsDoNotWait sends one byte of a body. A refusal goes out before the rest is
// sent, and the connection goes on with the next request, or ends, as it would without.
func TestRefusalsDoNotWait(t *testing.T) {
	refuse := func(_ *abi.Request, resp *abi.Response) error {
		resp.Status, resp.Body = http.StatusUnauthorized, []byte(`{"error":"unauthorized"}`)
		return nil
	}
	const length = "Content-Length: 100\r\n"
	rest := strings.Repeat("x", 99)
	tests := []struct {
		name, headers, first, rest string
		gate                       caller
		status                     int
		goesOn                     bool
	}{
		{"gate", length, "x", rest, refuse, 401, true},
		{"chunks", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n", "1\r\nx\r\n0\r\n\r\n", refuse, 401, true},
		{"a bad chunk", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n", "zz\r\n", refuse, 401, false},
		{"endless chunks", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n", "40001\r\n" + strings.Repeat("x", 0x40001), refuse, 401, false},
		{"the client closes", "Connection: close\r\n" + length, "x", rest, refuse, 401, false},
		{"a preflight", "Origin: https://shop.example\r\nAccess-Control-Request-Method: POST\r\n" + length, "x", rest, pass, 403, true},
		{"too large", "Content-Length: 65537\r\n", "x", strings.Repeat("x", 65536), pass, 413, true},
		{"too large to drain", "Content-Length: 10000000\r\n", "x", "", pass, 413, false},
		{"header too large", "X-Long: " + strings.Repeat("x", httpfront.MaxHeader) + "\r\n" + length, "x", rest, pass, 431, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// The node's writers are wrapped too.
			front := newFront(test.gate, nil, nil)
			front.Begin = func(w http.ResponseWriter, r *http.Request) (context.Context, http.ResponseWriter) {
				return r.Context(), wrapped{w}
			}
			c := dialServer(t, front)
			c.send("OPTIONS /x HTTP/1.1\r\nHost: x\r\n" + test.headers + "\r\n" + test.first)
			if status, body, _ := c.receive(); status != test.status {
				t.Errorf("status %d, %s; want %d", status, body, test.status)
			}
			next := "OPTIONS /x HTTP/1.1\r\nHost: x\r\nOrigin: x\r\nAccess-Control-Request-Method: GET\r\n\r\n"
			c.send(test.rest + next)
			if !test.goesOn {
				c.ends()
			} else if status, body, _ := c.receive(); status != 403 {
				t.Errorf("the next request: status %d, %s", status, body)
			}
		})
	}
}

// TestMalformedChunks: what is badly framed is refused for good, and what was cut off may be
// sent again.
func TestMalformedChunks(t *testing.T) {
	for _, test := range []struct {
		name, chunks string
		cut          bool
		status       int
	}{
		{"no number", "zz\r\n", false, 400},
		{"a chunk too long", "1\r\nxyz\r\n", false, 400},
		{"a number too long", "fffffffffffffffff\r\n", false, 400},
		{"a trailer that is none", "0\r\nno trailer\r\n\r\n", false, 400},
		{"cut off in a chunk", "5\r\nx", true, 408},
		{"cut off between chunks", "1\r\nx\r\n", true, 408},
	} {
		t.Run(test.name, func(t *testing.T) {
			front := newFront(pass, func(_ *abi.Request, resp *abi.Response) error {
				resp.Status = 200
				return nil
			}, nil)
			front.Begin = func(w http.ResponseWriter, r *http.Request) (context.Context, http.ResponseWriter) {
				return r.Context(), wrapped{w}
			}
			c := dialServer(t, front)
			c.send("POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + test.chunks)
			if test.cut {
				if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			if status, body, _ := c.receive(); status != test.status {
				t.Errorf("status %d, %s; want %d", status, body, test.status)
			}
			c.ends()
		})
	}
}

// wrapped is a writer that hides net/http's.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }
