package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestTooLargeIsNotDecoded: a message that is larger than an honest node's is refused, as JSON
// takes many times its bytes to decode. Not parallel, as it counts what is allocated.
func TestTooLargeIsNotDecoded(t *testing.T) {
	r, failures := unknown(t, slog.New(slog.DiscardHandler))
	refused := 0
	r.ObserveRefusal = func(_, reason string, times int) {
		if reason == RefusedSize {
			refused += times
		}
	}
	r.slots = newSlots()
	key, subscribe := decoded(r, wire.VerbKey, r.key), decoded(r, wire.VerbSubscribe, r.subscribe)
	for _, c := range []struct {
		verb, begin, element, end string
		hear                      nats.MsgHandler
	}{
		{wire.VerbKey, `{"v":2,"more":[""`, `,""`, `]}`, r.apart(wire.VerbKey, key)},
		{wire.VerbSubscribe, `{"v":2,"subscription":{"events":[""`, `,""`, `]}}`, r.apart(wire.VerbSubscribe, subscribe)},
		{wire.VerbStatus, `{"v":2,"running":{"counts":{"failures":{"a":1`, `,"a":1`, `}}}}`, r.heartbeats()},
	} {
		t.Run(c.verb, func(t *testing.T) {
			*failures, refused = nil, 0
			elements := (wire.MaxPayload - len(c.begin+c.end)) / len(c.element)
			m := &nats.Msg{Subject: wire.Subject("node_1", c.verb), Data: []byte(c.begin + strings.Repeat(c.element, elements) + c.end)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			c.hear(m)
			r.running.Wait()
			runtime.ReadMemStats(&after)
			if len(*failures) != 1 || (*failures)[0] != wire.Invalid || refused != 1 {
				t.Errorf("the failures are %q, and %d are counted as refused", *failures, refused)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
				t.Errorf("it took %d KiB to refuse it", took>>10)
			}
			if m.Data != nil {
				t.Error("its bytes are kept")
			}
		})
	}
}

// TestSlotsBoundBytes: what waits for a slot holds so many bytes of a node, and of all nodes.
func TestSlotsBoundBytes(t *testing.T) {
	s := newSlots()
	const size = bytesOfNode / 4
	hold := make(chan struct{})
	ended := make(chan error, bytesInAll/size)
	joined := make(chan struct{})
	for i := range bytesInAll / size {
		node := fmt.Sprint("node_", i/4)
		go func() {
			ended <- s.nodes.run(t.Context(), node, size, func() error {
				joined <- struct{}{}
				<-hold
				return nil
			})
		}()
		<-joined
		if i == 3 {
			if err := s.run(t.Context(), node, 1, func() error { return nil }); !errors.Is(err, errBusy) || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("a node that has as many bytes as it may: %v", err)
			}
		}
	}
	if err := s.run(t.Context(), "node_other", 1, func() error { return nil }); !errors.Is(err, errBusy) {
		t.Errorf("when all have as many bytes as they may: %v", err)
	}
	close(hold)
	for range bytesInAll / size {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if s.nodes.held != 0 || len(s.nodes.byName) != 0 {
		t.Errorf("%d bytes of %d nodes are left", s.nodes.held, len(s.nodes.byName))
	}
}

// TestLargeMessagesWaitForOneAnother: few large messages are decoded at once, and small ones
// do not wait for them.
func TestLargeMessagesWaitForOneAnother(t *testing.T) {
	r := &requests{large: make(chan struct{}, 1)}
	r.large <- struct{}{}
	large := []byte(`{"v":2,"raw":[` + strings.Repeat(" ", largeMessage) + `]}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.decode(ctx, large, new(wire.LeadsRequest)); !errors.Is(err, errBusy) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a large message beside another: %v", err)
	}
	if err := r.decode(ctx, []byte(`{"v":2}`), new(wire.LeadsRequest)); err != nil {
		t.Errorf("a small message: %v", err)
	}
	<-r.large
	if err := r.decode(t.Context(), large, new(wire.LeadsRequest)); err != nil || len(r.large) != 0 {
		t.Errorf("a large message alone: %v", err)
	}
}

// TestEventsAreBounded: many empty events are a short message, and take memory while the
// request waits.
func TestEventsAreBounded(t *testing.T) {
	many := wire.SubscribeRequest{Subscription: store.Subscription{Events: make([]string, maxEvents+1)}}
	if _, err := (&requests{}).subscribe(t.Context(), "node_1", many); !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
}

// TestStatusesOfANodeInASecond: however much a node says of itself, others are heard.
func TestStatusesOfANodeInASecond(t *testing.T) {
	r, failures := unknown(t, slog.New(slog.DiscardHandler))
	now := time.Unix(1_000_000, 0)
	r.Now = func() time.Time { return now }
	r.presence.Put(store.Node{ID: "node_2"})
	large := `{"v":2` + strings.Repeat(" ", wire.MaxBytes(wire.VerbStatus)-len(`{"v":2}`)) + `}`
	hear := r.heartbeats()
	for i, c := range []struct {
		from, body string // the address that it comes from, and what
		times      int
		want       wire.Failure
		pass       time.Duration
	}{
		{from: "region-us.node_1", body: large, times: 2 * statusBytes / wire.MaxBytes(wire.VerbStatus), want: wire.NotEnrolled}, // node_1 is of another
		{from: "node_1", body: large, times: statusBytes / wire.MaxBytes(wire.VerbStatus)},
		{from: "node_1", body: large, times: 2, want: wire.Invalid},
		{from: "node_1", body: `{"v":2}`, times: 1, want: wire.Invalid},
		{from: "node_2", body: large, times: 1},
		{from: "node_1", body: large, times: 1, pass: time.Second},
	} {
		now = now.Add(c.pass)
		*failures = nil
		for range c.times {
			hear(&nats.Msg{Subject: wire.Subject(c.from, wire.VerbStatus), Data: []byte(c.body)})
		}
		if want := slices.Repeat([]wire.Failure{c.want}, c.times); !slices.Equal(*failures, want) {
			t.Errorf("%d: the failures are %q, want %q", i, *failures, want)
		}
	}
}
