package webhook

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestDialsOfATryArePaced: the first connections of a try are made at once, and each further
// one after a longer pause. Who makes no try is not held up, and a try that ends does not wait.
func TestDialsOfATryArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialled := 0
		dial := paced(func(context.Context, string, string) (net.Conn, error) {
			dialled++
			return nil, net.ErrClosed
		})
		for range 100 {
			_, _ = dial(t.Context(), "tcp", "192.0.2.1:443")
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), tryKey{}, new(atomic.Int32)), 10*time.Second)
		defer cancel()
		var at []time.Duration
		for ctx.Err() == nil {
			before := dialled
			if _, err := dial(context.WithoutCancel(ctx), "tcp", "192.0.2.1:443"); dialled == before {
				t.Fatalf("not dialled: %v", err)
			}
			at = append(at, time.Since(began))
		}
		const ms = time.Millisecond
		want := []time.Duration{0, 0, 0, 50 * ms, 150 * ms, 350 * ms, 750 * ms, 1550 * ms, 2550 * ms}
		for i, d := range want {
			if at[i] != d {
				t.Errorf("connection %d after %v, want %v", i+1, at[i], d)
			}
		}
		if len(at) != 17 { // the last one after the end
			t.Errorf("%d connections in 10 s", len(at))
		}
		before := dialled
		if _, err := dial(ctx, "tcp", "192.0.2.1:443"); dialled != before || err == nil || time.Since(began) != at[len(at)-1] {
			t.Errorf("dialled after the end: %v", err)
		}
	})
}

// TestEndpointThatRefusesStreams answers each request over HTTP/2 in ways that have net/http
// make it again over another connection.
func TestEndpointThatRefusesStreams(t *testing.T) {
	for name, refusal := range map[string][]byte{
		"GOAWAY":     {0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"RST_STREAM": {0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 1}, // PROTOCOL_ERROR
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			receiver := newReceiver(t, nil)
			endpoint, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: receiver.TLS.Certificates, NextProtos: []string{"h2"}})
			must(t, err)
			defer endpoint.Close()
			var connections atomic.Int32
			go func() {
				for {
					conn, err := endpoint.Accept()
					if err != nil {
						return
					}
					connections.Add(1)
					go refuseStream(conn, refusal)
				}
			}()
			transport, err := newTransport(Config{
				Guard: NewGuard(GuardConfig{Allow: loopback}), CAFile: caFile(t, receiver), Timeout: time.Minute, PerEndpoint: 1,
			})
			must(t, err)
			defer transport.CloseIdleConnections()
			refused := try{item: &item{}, target: newTarget("https://" + endpoint.Addr().String()), secrets: []string{"s"}, started: time.Now()}
			if r := refused.send(t.Context(), transport, &Config{Timeout: time.Second}); r.ok || r.attempt.Error == "" {
				t.Errorf("the try ended with %+v", r.attempt)
			}
			if n := connections.Load(); n > 8 {
				t.Errorf("%d connections in a second", n)
			}
		})
	}
}

// refuseStream answers the first request of a connection with a frame of HTTP/2.
func refuseStream(conn net.Conn, refusal []byte) {
	defer conn.Close()
	settings := []byte{0, 0, 0, 4, 0, 0, 0, 0, 0}
	if _, err := conn.Write(settings); err != nil {
		return
	}
	if _, err := io.CopyN(io.Discard, conn, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			return
		}
		if head[3] == 1 { // HEADERS
			_, _ = conn.Write(refusal)
			_, _ = io.Copy(io.Discard, conn)
			return
		}
	}
}
