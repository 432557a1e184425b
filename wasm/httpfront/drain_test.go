package httpfront_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
