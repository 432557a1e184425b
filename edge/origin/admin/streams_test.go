package admin

import (
	"path/filepath"
	"strconv"
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
	s.reader = &eventReader{a: &api{Config: Config{DB: s.db, Now: now}}, account: account.ID}
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
	var fresh []message
	err := s.reader.sendFresh(t.Context(), func(sent ...message) error {
		fresh = append(fresh, sent...)
		return nil
	})
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

// TestEventReaderGoesByNoClock moves the clock back and far ahead while a stream follows an
// account: it sends each event once, in the order in which they were made, and another one
// goes on from wherever it was.
func TestEventReaderGoesByNoClock(t *testing.T) {
	s := newStreamTest(t)
	s.expect(t)
	began := s.now
	quiet := s.reader.position
	var all []string
	for _, at := range []time.Duration{0, 10 * time.Minute, -time.Hour, -time.Hour + time.Second, 365 * 24 * time.Hour, time.Second, -30 * 24 * time.Hour, 0} {
		s.now = began.Add(at)
		s.expect(t)
		id := s.add(t)
		s.expect(t, id)
		s.expect(t)
		all = append(all, id)
	}
	for i, id := range all {
		if err := s.reader.goOn(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		s.expect(t, all[i+1:]...)
	}
	s.reader.position = quiet
	s.expect(t, all...)
}

// TestEventReaderBeginsBeforeAll has the clock put back a day for one event: a stream that
// begins in the past, or goes on from then, still has the earlier ones.
func TestEventReaderBeginsBeforeAll(t *testing.T) {
	s := newStreamTest(t)
	now := s.now
	var all []string
	for _, at := range []time.Duration{-2 * time.Hour, -5 * time.Minute, -24 * time.Hour, -time.Minute} {
		s.now = now.Add(at)
		all = append(all, s.add(t))
	}
	s.now = now
	for last, want := range map[string][]string{
		now.Add(-10 * time.Minute).Format(time.RFC3339): all[1:],
		all[0]: all[1:],
		"0":    all[1:],
		all[1]: all[2:],
		all[2]: all[3:],
	} {
		s.reader.position = 0
		if err := s.reader.goOn(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		t.Log("behind", last)
		s.expect(t, want...)
	}
}

// TestEventReaderGoesOn has streams go on from an event, a position and a time, an hour ago at
// the earliest, and from a position that the database has not reached.
func TestEventReaderGoesOn(t *testing.T) {
	s := newStreamTest(t)
	began := s.now
	var all []string
	var positions []string
	for range 5 {
		all = append(all, s.add(t))
		s.expect(t, all[len(all)-1])
		positions = append(positions, strconv.FormatInt(s.reader.position, 10))
		s.now = s.now.Add(30 * time.Minute)
	}
	for last, want := range map[string][]string{
		all[0]:       all[3:], // those of the last hour
		positions[0]: all[3:],
		all[3]:       all[4:],
		positions[3]: all[4:],
		all[4]:       nil,
		"0":          all[3:],
		"999999":     nil,
		began.Add(100 * time.Minute).Format(time.RFC3339): all[4:],
		began.Format(time.RFC3339):                        all[3:],
		s.now.Add(time.Hour).Format(time.RFC3339):         nil,
	} {
		s.reader.position = 0
		if err := s.reader.goOn(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		t.Log("behind", last)
		s.expect(t, want...)
	}
	for _, none := range []string{"evt_none", "-1", "yesterday", "\x00"} {
		if err := s.reader.goOn(t.Context(), none); err == nil {
			t.Errorf("a stream goes on behind %q", none)
		}
	}
}
