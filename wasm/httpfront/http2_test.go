package httpfront_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/httpfront"
)

// Types and flags of frames (RFC 9113, section 6).
const (
	dataFrame, headersFrame, resetFrame, pingFrame, goAwayFrame = 0, 1, 3, 6, 7
	endStream, endHeaders                                       = 1, 4
)

// http2Conn is a connection of HTTP/2 on which the test writes every frame itself.
type http2Conn struct {
	*testing.T
	net.Conn
}

func (c http2Conn) send(kind, flags byte, stream uint32, payload string) {
	c.Helper()
	frame := []byte{0, 0, byte(len(payload)), kind, flags}
	frame = append(binary.BigEndian.AppendUint32(frame, stream), payload...)
	if _, err := c.Write(frame); err != nil {
		c.Fatal(err)
	}
}

// receive returns the payload of the next frame of a kind. The server must not announce that
// it ends the connection before.
func (c http2Conn) receive(kind byte) string {
	c.Helper()
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			c.Fatal(err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c.Conn, payload); err != nil {
			c.Fatal(err)
		}
		switch head[3] {
		case goAwayFrame:
			c.Fatal("the server ends the connection")
		case kind:
			return string(payload)
		}
	}
}

// TestBodiesThatDoNotComeOverHTTP2: a body that does not come ends its own request alone, since
// a proxy has those of many clients on one connection.
func TestBodiesThatDoNotComeOverHTTP2(t *testing.T) {
	begun, outcomes := make(chan struct{}, 1), make(chan int, 1)
	front := newFront(pass, func(_ *abi.Request, resp *abi.Response) error {
		resp.Status = 200
		return nil
	}, nil)
	front.Begin = func(w http.ResponseWriter, r *http.Request) (context.Context, http.ResponseWriter) {
		if r.URL.Path == "/slow" {
			if err := http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)); err != nil {
				t.Error(err)
			}
		}
		begun <- struct{}{}
		return r.Context(), w
	}
	front.Answered = func(_ context.Context, o *httpfront.Outcome) { outcomes <- o.Status }
	server := httptest.NewUnstartedServer(front)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil { // and empty SETTINGS
		t.Fatal(err)
	}
	c := http2Conn{t, conn}
	for i, test := range []struct {
		path   string
		then   func(stream uint32) // what follows one byte of a body of ten
		status int
		answer string // "": nobody is there to read it
	}{
		{"/slow", nil, 408, `{"error":"request_timeout"}`},
		{"/cut", func(stream uint32) { c.send(dataFrame, endStream, stream, "y") }, 400, `{"error":"malformed_request"}`},
		{"/gone", func(stream uint32) { c.send(resetFrame, 0, stream, "\x00\x00\x00\x08") }, httpfront.ClientGone, ""},
		{"/slow", nil, 408, `{"error":"request_timeout"}`},
	} {
		stream := uint32(2*i + 1)
		path := "\x04" + string(rune(len(test.path))) + test.path
		c.send(headersFrame, endHeaders, stream, "\x83\x86"+path+"\x41\x01x\x0f\x0d\x0210") // POST, http, host x, Content-Length 10
		c.send(dataFrame, 0, stream, "x")
		<-begun
		if test.then != nil {
			test.then(stream)
		}
		if got := <-outcomes; got != test.status {
			t.Errorf("%s: status %d, want %d", test.path, got, test.status)
		}
		if test.answer != "" {
			if got := c.receive(dataFrame); got != test.answer {
				t.Errorf("%s: %s", test.path, got)
			}
		}
	}
	c.send(pingFrame, 0, 0, "whatever")
	c.receive(pingFrame)
}
