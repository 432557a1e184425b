package admin

import (
	"path/filepath"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central"
)

// streamTest is a stream of one account's events, on a clock of its own.
type streamTest struct {
	db      *central.DB
	now     time.Time
	account string
	reader  *eventReader
}

func newStreamTest(t *testing.T) *streamTest {
	t.Helper()
	s := &streamTest{now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	now := func() time.Time { return s.now }
	var err error
	if s.db, err = central.Open(t.Context(), central.Config{URL: filepath.Join(t.TempDir(), "central.db"), Now: now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	account, err := s.db.CreateAccount(t.Context(), store.Account{Name: "A", Mode: store.ModeLive})
	if err != nil {
		t.Fatal(err)
	}
	s.account = account.ID
	s.reader = &eventReader{a: &api{Config: Config{DB: s.db, Now: now}}, account: account.ID, sent: make(map[string]time.Time), from: s.now}
	return s
}

// add emits an event, and returns its id.
func (s *streamTest) add(t *testing.T) string {
	t.Helper()
	_, e, err := s.db.AddContact(t.Context(), store.Contact{AccountID: s.account, ClientID: "c", Channel: "phone"})
	if err != nil {
		t.Fatal(err)
	}
	return e.ID
}

// expect reads once, and expects the events with these ids.
func (s *streamTest) expect(t *testing.T, want ...string) {
	t.Helper()
	fresh, err := s.reader.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(fresh) != len(want) {
		t.Fatalf("read %d events, want %d", len(fresh), len(want))
	}
	for i, m := range fresh {
		if m.id != want[i] {
			t.Errorf("event %d is %s, want %s", i, m.id, want[i])
		}
	}
}

// TestEventReaderMovesWithClock polls a stream for ten minutes in which nothing
// comes: it then looks back no further than the clocks of origins may differ, and
// has forgotten what it sent.
func TestEventReaderMovesWithClock(t *testing.T) {
	s := newStreamTest(t)
	first := s.add(t)
	s.expect(t, first)
	began := s.now
	for s.now.Before(began.Add(10 * time.Minute)) {
		s.now = s.now.Add(10 * time.Second)
		s.expect(t)
	}
	if back := s.now.Sub(s.reader.from); back > eventSlack {
		t.Errorf("a quiet stream looks %v back, more than %v", back, eventSlack)
	}
	if len(s.reader.sent) != 0 {
		t.Errorf("it still holds %d events that it cannot read again", len(s.reader.sent))
	}
	s.now = s.now.Add(time.Second)
	s.expect(t, s.add(t))
}

// TestEventReaderTakesEarlierClocks has an origin whose clock is behind emit an
// event after quiet minutes: the stream sends it, once.
func TestEventReaderTakesEarlierClocks(t *testing.T) {
	s := newStreamTest(t)
	s.now = s.now.Add(10 * time.Minute)
	s.expect(t)
	at := s.now
	s.now = at.Add(-eventSlack + time.Second)
	late := s.add(t)
	s.now = at
	s.expect(t, late)
	s.expect(t)
}
