package connections

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"
)

// TestRequestsAreBounded holds that a request over HTTP/2 has its place until its client
// has read all of the answer, that those beyond the bounds are reset, and that neither
// proxies nor requests over HTTP/1 count for an address.
func TestRequestsAreBounded(t *testing.T) {
	const window = 64 << 10 // of a stream
	for _, tt := range []struct {
		name   string
		bounds Bounds
		proxy  bool
		http1  bool
		resets bool
	}{
		{name: "address", bounds: Bounds{All: 9, Address: 1, Network: 9}, resets: true},
		{name: "network", bounds: Bounds{All: 9, Address: 9, Network: 1}, resets: true},
		{name: "all", bounds: Bounds{All: 1, Address: 9, Network: 9}, resets: true},
		{name: "room", bounds: Bounds{All: 2, Address: 2, Network: 2}},
		{name: "proxy", bounds: Bounds{All: 2, Address: 1, Network: 1}, proxy: true},
		{name: "all of a proxy", bounds: Bounds{All: 1, Address: 1, Network: 1}, proxy: true, resets: true},
		{name: "HTTP/1", bounds: Bounds{All: 1, Address: 1, Network: 1}, http1: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			serve := func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/long" {
					return
				}
				// Of these two the client takes one, and the other waits in a buffer.
				_, _ = w.Write(make([]byte, window))
				_, _ = w.Write(make([]byte, 1000))
			}
			server := httptest.NewUnstartedServer(BoundRequests(http.HandlerFunc(serve), tt.bounds, func(netip.Addr) bool { return tt.proxy }))
			server.EnableHTTP2 = !tt.http1
			server.StartTLS()
			t.Cleanup(server.Close)
			client := server.Client()
			client.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: window}
			get := func(path string) (*http.Response, error) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				return client.Do(req)
			}
			short := func() error {
				resp, err := get("/")
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				_, err = io.ReadAll(resp.Body) // whose end comes after the place is free
				return err
			}

			long, err := get("/long")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = long.Body.Close() })
			for range 20 { // the handler of the first may not have returned yet
				if err := short(); (err != nil) != tt.resets {
					t.Fatalf("a request beside one whose answer is not read: %v, want it reset: %v", err, tt.resets)
				}
			}
			if body, err := io.ReadAll(long.Body); err != nil || !bytes.Equal(body, make([]byte, window+1000)) {
				t.Errorf("read %d bytes of the answer: %v", len(body), err)
			}
			again := time.NewTicker(10 * time.Millisecond)
			defer again.Stop()
			for deadline := time.Now().Add(time.Minute); short() != nil; <-again.C {
				if time.Now().After(deadline) {
					t.Fatal("the place of a request that was answered is not free")
				}
			}
		})
	}
}
