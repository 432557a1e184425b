package webhook

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"partneredge/edge/certificate/certificatetest"
)

// TestEndpointsAreToldBounds reads what the transport announces to an endpoint that
// speaks HTTP/2: how much that may send before it is read, by stream and in all.
func TestEndpointsAreToldBounds(t *testing.T) {
	endpoint := newReceiver(t, nil)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: endpoint.TLS.Certificates, NextProtos: []string{"h2"},
	})
	must(t, err)
	defer listener.Close()
	transport, err := newTransport(Config{
		Guard: NewGuard(GuardConfig{Allow: loopback}), CAFile: caFile(t, endpoint), Timeout: time.Minute, PerEndpoint: 1,
	})
	must(t, err)
	defer transport.CloseIdleConnections()
	called := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+listener.Addr().String(), nil)
		if err == nil {
			_, err = transport.RoundTrip(req) //nolint:bodyclose // nobody answers
		}
		called <- err
	}()

	conn, err := listener.Accept()
	must(t, err)
	preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	_, err = io.ReadFull(conn, preface)
	must(t, err)
	settings := map[uint16]uint32{}
	kind, payload := readFrame(t, conn)
	if kind != 4 { // SETTINGS
		t.Fatalf("the first frame is of type %d", kind)
	}
	for ; len(payload) >= 6; payload = payload[6:] {
		settings[binary.BigEndian.Uint16(payload)] = binary.BigEndian.Uint32(payload[2:])
	}
	if got := settings[4]; got != 64<<10 { // SETTINGS_INITIAL_WINDOW_SIZE
		t.Errorf("a stream may send %d bytes", got)
	}
	if kind, payload = readFrame(t, conn); kind != 8 { // WINDOW_UPDATE
		t.Fatalf("the second frame is of type %d", kind)
	}
	if got := binary.BigEndian.Uint32(payload); got != 1<<20 { // of the connection
		t.Errorf("a connection may send %d bytes", got)
	}
	must(t, conn.Close())
	if err := <-called; err == nil {
		t.Error("a call that nobody answered succeeds")
	}
}

// readFrame reads a frame of HTTP/2 (RFC 9113, section 4.1).
func readFrame(t *testing.T, r io.Reader) (kind byte, payload []byte) {
	t.Helper()
	var head [9]byte
	_, err := io.ReadFull(r, head[:])
	must(t, err)
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(r, payload)
	must(t, err)
	return head[3], payload
}

// systemRootsEnv is set in the process that TestCAFileAddsToTheSystem starts.
const systemRootsEnv = "WEBHOOK_TEST_SYSTEM_ROOTS"

// TestCAFileAddsToTheSystem calls an endpoint whose certificate the system trusts,
// with a CA file that holds another. A process reads the system's only once.
func TestCAFileAddsToTheSystem(t *testing.T) {
	other := os.Getenv(systemRootsEnv)
	if other == "" {
		cert, _ := certificatetest.Write(t, t.TempDir()) // signs nothing here
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCAFileAddsToTheSystem$", "-test.count=1")
		process.Env = append(os.Environ(), systemRootsEnv+"="+cert, "SSL_CERT_DIR="+t.TempDir(),
			"SSL_CERT_FILE="+caFile(t, newReceiver(t, nil)))
		if out, err := process.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	endpoint := newReceiver(t, nil)
	transport, err := newTransport(Config{
		Guard: NewGuard(GuardConfig{Allow: loopback}), CAFile: other, Timeout: time.Minute, PerEndpoint: 1,
	})
	must(t, err)
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "GET", endpoint.URL, nil)
	must(t, err)
	resp, err := transport.RoundTrip(req)
	must(t, err)
	must(t, resp.Body.Close())
}
