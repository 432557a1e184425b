package command

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/edge/origin"
	"partneredge/edge/origin/registry"
	"partneredge/store"
)

// TestStopWithARequestUnderWay has an admin request take all the time that a stop has. The
// sender stops meanwhile: what it would begin to deliver could not be noted as delivered any
// more, and would be delivered once more after the next start.
func TestStopWithARequestUnderWay(t *testing.T) {
	t.Parallel()
	endpoint := newSometimes(t)
	endpoint.up.Store(true)
	config := originConfig{
		Config: origin.Config{
			Dir: t.TempDir(), AdminAddr: "127.0.0.1:0", NATSListen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		},
		webhookAllow: prefixes{netip.MustParsePrefix("127.0.0.0/8")}, webhookCA: endpoint.ca,
	}
	start := func() *originProcess {
		o, err := startOrigin(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.stop(context.Background()) })
		return o
	}
	o := start()
	a, err := o.db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive, Agent: store.Agent{Email: "a@example.com", FullName: "A"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.db.AddSubscription(t.Context(), store.Subscription{
		ID: "whs_1", AccountID: a.ID, KeyID: "key_1", Environment: store.Live, TargetURL: endpoint.url,
		Events: []string{store.EventSentinelFired}, Secret: strings.Repeat("3f", 32),
	}); err != nil {
		t.Fatal(err)
	}
	var events []string
	fire := func() {
		_, event, err := o.db.AddFiring(t.Context(), store.Firing{AccountID: a.ID, Name: "stale_lead", Data: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event.ID)
	}
	fire()
	await(t, "the first event to be delivered", func() bool { return endpoint.took(events[0]) })

	cut := holdUpload(t, o)
	stopping, end := context.WithCancel(t.Context())
	var stop sync.WaitGroup
	defer stop.Wait()
	defer end()
	stop.Go(func() { _ = o.started.Close(stopping) }) // it tells of the upload that is cut short
	await(t, "the sender to leave the endpoint", func() bool {
		select {
		case <-cut:
			t.Fatalf("the sender went on, with %d events, until the upload ended", len(events))
		default:
		}
		fire() // as other requests do
		return endpoint.conns.Load() == 0
	})
	end()
	stop.Wait()

	start()
	for _, event := range events {
		await(t, "each event to be delivered", func() bool { return endpoint.took(event) })
	}
	endpoint.mu.Lock()
	defer endpoint.mu.Unlock()
	for event, times := range endpoint.events {
		if times != 1 {
			t.Errorf("the event %s was delivered %d times, want once", event, times)
		}
	}
}

// holdUpload begins to push a blob, of which nothing comes, and returns once the origin waits
// for it. cut is closed when the request has ended.
func holdUpload(t *testing.T, o *originProcess) (cut <-chan struct{}) {
	t.Helper()
	begin, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.AdminURL()+registry.Root+registry.Repository+"/blobs/uploads/", nil)
	if err != nil {
		t.Fatal(err)
	}
	begin.Header.Set("Authorization", "Bearer "+o.Token())
	resp, err := http.DefaultClient.Do(begin)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	waits := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(waits) }})
	body, open := io.Pipe()
	t.Cleanup(func() { _ = open.Close() })
	piece, err := http.NewRequestWithContext(ctx, http.MethodPatch, o.AdminURL()+resp.Header.Get("Location"), body)
	if err != nil {
		t.Fatal(err)
	}
	piece.Header = begin.Header.Clone()
	piece.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: 5 * time.Minute}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := client.Do(piece); err == nil {
			_ = resp.Body.Close()
		}
	}()
	select {
	case <-waits:
	case <-ended:
		t.Fatalf("the upload, begun with %s, was refused", resp.Status)
	}
	return ended
}
