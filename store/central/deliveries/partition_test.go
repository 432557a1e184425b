package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/logtest"
)

func TestBounds(t *testing.T) {
	for text, want := range map[string][2]string{
		"FOR VALUES FROM ('dlv_01a') TO ('dlv_01b')":  {"01a", "01b"},
		"FOR VALUES FROM ('dlv_01a~') TO ('dlv_01b')": {"01a~", "01b"},
		"FOR VALUES FROM (MINVALUE) TO ('dlv_01b')":   {"", "01b"},
	} {
		from, until, err := bounds(text)
		if err != nil || [2]string{from, until} != want {
			t.Errorf("%s: %q to %q, %v", text, from, until, err)
		}
	}
	for _, bad := range []string{"", "DEFAULT", "FOR VALUES IN ('a', 'b', 'c')", "FOR VALUES FROM ('a') TO (MAXVALUE)"} {
		if from, until, err := bounds(bad); err == nil {
			t.Errorf("%s: %q to %q", bad, from, until)
		}
	}
}

var testLayout = layout{{"first", "", "c"}, {"a", "c", "e"}, {"b", "e", "g"}, {"c", "i", "k"}}

// TestLayoutHolds compares with reading the partitions one by one.
func TestLayoutHolds(t *testing.T) {
	for id, want := range map[string]bool{
		"a": false, "bz": false, "c": true, "cz": true, "e": true, "fz": true, "g": false, "hz": false, "i": true, "k": false, "z": false,
	} {
		if testLayout.holds(id) != want {
			t.Errorf("holds %s: %v", id, !want)
		}
	}
	if (layout{}).holds("a") || (layout{{"first", "", "c"}}).holds("a") {
		t.Error("a log without partitions holds an identifier in one")
	}
}

func TestLayoutGap(t *testing.T) {
	for _, tt := range []struct{ after, before, from, until string }{
		{"", "z", "", "c"},
		{"", "b", "", "b"},
		{"b", "d", "b", "c"},
		{"c", "z", "g", "i"},
		{"f", "h", "g", "h"},
		{"i", "z", "k", "z"},
		{"i", "j", "k", "j"}, // none
		{"l", "z", "l", "z"},
	} {
		if from, until := testLayout.gap(tt.after, tt.before); from != tt.from || until != tt.until {
			t.Errorf("after %q before %q: %q to %q, want %q to %q", tt.after, tt.before, from, until, tt.from, tt.until)
		}
	}
	if from, until := (layout{}).gap("a", "b"); from != "a" || until != "b" {
		t.Errorf("without partitions: %q to %q", from, until)
	}
}

func TestLayoutNext(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	day := func(n int) string { return firstAt(now.Truncate(24*time.Hour).AddDate(0, 0, n)) }
	until := func(s string) layout { return layout{{"first", "", s}} }
	for name, tt := range map[string]struct {
		have              layout
		rest, from, until string
	}{
		"none yet":                      {nil, "", day(0), day(1)},
		"goes on":                       {until(day(1)), "", day(1), day(2)},
		"far enough":                    {until(day(4)), "", "", ""},
		"not for a long time":           {until(day(-90)), "", day(0), day(1)},
		"ends at no round time":         {until(firstAt(now.Add(time.Minute)) + "~"), "", firstAt(now.Add(time.Minute)) + "~", day(1)},
		"older rows in the default one": {until(day(0)), day(-2) + "x", day(0), day(1)},
		"rows of today in it":           {until(day(0)), firstAt(now) + "x", day(1), day(2)},
		"rows of a fast clock in it":    {until(day(0)), day(1) + "x", day(1) + "~", day(2)},
		"partitions of a wrong clock":   {layout{{"first", "", day(1)}, {"a", day(365), day(366)}}, "", day(1), day(2)},
		"when their time comes near":    {layout{{"first", "", day(2)}, {"a", day(2), day(3)}}, "", day(3), day(4)},
	} {
		got, err := tt.have.next(now, tt.rest, 24*time.Hour)
		if err != nil || got.from != tt.from || got.until != tt.until {
			t.Errorf("%s: %+v, %v; want %s to %s", name, got, err, tt.from, tt.until)
		}
	}
	if got, err := until("zz").next(now, "~", time.Hour); err == nil && got.name != "" {
		t.Errorf("after what is no time: %+v", got)
	}
}

func TestPartitionWidth(t *testing.T) {
	for keep, want := range map[time.Duration]time.Duration{
		-1: 30 * 24 * time.Hour, 0: 30 * 24 * time.Hour, time.Minute: time.Hour, 7 * 24 * time.Hour: 5 * time.Hour,
		30 * 24 * time.Hour: 24 * time.Hour, 3650 * 24 * time.Hour: 30 * 24 * time.Hour,
	} {
		if got := PartitionWidth(keep); got != want {
			t.Errorf("of %v: %v, want %v", keep, got, want)
		}
	}
}

// TestQueriesReadOnePartition asks for the plans of what is read by an identifier: of
// many partitions one is touched, by a plan for the identifier as by one for any.
func TestQueriesReadOnePartition(t *testing.T) {
	ctx := t.Context()
	now := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	d, err := db.Open(ctx, db.Config{URL: centraltest.Postgres(t), Migrations: os.DirFS("../migrations"), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	s := New(d, nil, slog.New(slog.DiscardHandler))
	var delivery, event string
	for range 10 {
		if err := s.MakePartitions(ctx, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		delivery, event = store.NewID("dlv", now), store.NewID("evt", now)
		if err := d.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
			if _, err := t.Exec(ctx, `INSERT INTO events VALUES (?, 'acc', 'type', 0, 0, '{}')`, event); err != nil {
				return err
			}
			if _, err := t.Exec(ctx, `INSERT INTO attempts VALUES (?, 1, 'dlv', 0, 0, 0, '{}', '', '')`, delivery); err != nil {
				return err
			}
			_, err := t.Exec(ctx, `INSERT INTO deliveries VALUES (?, ?, 'whs', 'dead', 0, 0, 0, 0, '', 0, 0)`, delivery, event)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(24 * time.Hour)
	}
	table := regexp.MustCompile(`on (attempts|events)_\S+.*`)
	for name, query := range map[string]struct {
		text string
		arg  any
	}{
		"attempts of a delivery": {attemptsOf, delivery},
		"a delivery":             {deliveryByID, delivery},
		"events of claims":       {eventsOfClaims + "id = ANY(?)", []string{event}},
		"an event":               {"SELECT body FROM events WHERE id = ?", event},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			if err := d.WriteAlone(ctx, func(ctx context.Context, tx *db.Tx) error {
				if _, err := tx.Exec(ctx, "SET LOCAL plan_cache_mode = "+mode); err != nil {
					return err
				}
				lines, err := tx.Strings(ctx, "EXPLAIN (ANALYZE, COSTS OFF) "+query.text, query.arg)
				plan, touched := strings.Join(lines, "\n"), 0
				for _, line := range table.FindAllString(plan, -1) {
					if !strings.Contains(line, "never executed") && !strings.Contains(line, "_pkey") {
						touched++
					}
				}
				if touched != 1 {
					t.Errorf("%s, %s: %d partitions are touched\n%s", name, mode, touched, plan)
				}
				return err
			}); err != nil {
				t.Fatal(fmt.Errorf("%s: %w", name, err))
			}
		}
	}
}

// TestPartitionThatIsNotMade: while somebody reads the default partition of the events, no
// partition is attached, and none is reported as made.
func TestPartitionThatIsNotMade(t *testing.T) {
	url := centraltest.Postgres(t)
	now := func() time.Time { return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }
	d, err := db.Open(t.Context(), db.Config{URL: url, Migrations: os.DirFS("../migrations"), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	reader, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	reading, err := reader.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reading.Rollback() }()
	if _, err := reading.Exec(`SELECT 1 FROM events_rest`); err != nil {
		t.Fatal(err)
	}
	log, logged := logtest.New()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	made := make(chan error, 1)
	go func() { made <- New(d, nil, log).MakePartitions(ctx, 24*time.Hour) }()
	for logged.Lines() == 0 {
		select {
		case err := <-made:
			if !errors.Is(err, store.ErrUnavailable) {
				t.Error(err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	t.Errorf("%s, %v", logged, <-made)
}
