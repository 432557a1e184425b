package sandbox

import (
	"bufio"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"partneredge/edge/webhook/signature"
	"partneredge/wasm/sandboxctl"
)

// TestForwardWaitsFromTheEnd: the wait for the next try begins with the end of the last one,
// however long the receiver took to refuse it.
func TestForwardWaitsFromTheEnd(t *testing.T) {
	t.Parallel()
	const wait = 300 * time.Millisecond
	var refused time.Time
	waited := make(chan time.Duration, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refused.IsZero() {
			waited <- time.Since(refused)
			return
		}
		time.Sleep(2 * wait)
		refused = time.Now()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer receiver.Close()
	var commands, log bytes.Buffer
	client := sandboxctl.NewClient(&commands, bufio.NewReader(strings.NewReader("{}\n")))
	f := newForwarder(t.Context(), receiver.URL, []time.Duration{wait}, client, &log)
	f.deliver("acc_1", []sandboxctl.Event{{ID: "evt_1", Type: "sentinel.fired", Body: []byte("{}"), Deliveries: []sandboxctl.Delivery{{Secret: "s"}}}})
	f.wait()
	close(waited)
	// The schedule's jitter is a tenth.
	if got := <-waited; got < wait*9/10 || strings.Contains(log.String(), "again in -") {
		t.Errorf("the next try came %v after the first was refused, want %v or a tenth less:\n%s", got, wait, &log)
	}
}

// TestForwardSignsAnew: a secret that is rotated between two tries signs the second, with the
// one before, as the service signs.
func TestForwardSignsAnew(t *testing.T) {
	t.Parallel()
	signed := make(chan string, 2)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed <- r.Header.Get(signature.Header)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer receiver.Close()
	answer := `{"subscriptions":[{"id":"whs_1","secret":"new","previous_secret":"old"}]}` + "\n"
	var commands, log bytes.Buffer
	client := sandboxctl.NewClient(&commands, bufio.NewReader(strings.NewReader(answer)))
	f := newForwarder(t.Context(), receiver.URL, []time.Duration{time.Millisecond}, client, &log)
	f.deliver("acc_1", []sandboxctl.Event{{ID: "evt_1", Type: "sentinel.fired", Body: []byte("{}"), Deliveries: []sandboxctl.Delivery{{Subscription: "whs_1", Secret: "old"}}}})
	f.wait()
	for _, secrets := range [][]string{{"old"}, {"new", "old"}} {
		header := <-signed
		for _, secret := range secrets {
			if err := signature.Verify(header, []byte("{}"), signature.DefaultTolerance, time.Now(), secret); err != nil || strings.Count(header, "v1=") != len(secrets) {
				t.Errorf("signed %s, not with %q: %v", header, secrets, err)
			}
		}
	}
}
