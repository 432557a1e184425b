package leads

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/logging"
	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
	"partneredge/store/local/outbox"
)

// TestTakenLeadsDoNotStayAside: a lead that was set aside leaves the disk once the origin has it,
// though it refuses another one, or the link fails at that. It is not offered again.
func TestTakenLeadsDoNotStayAside(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newHanded(t, durable.OS{}, filepath.Join(t.TempDir(), "outbox"))
			for _, id := range []string{"lead_a", "lead_b"} {
				body := `{"id":"` + id + `","email":"` + id + `@example.com","key_hash":""}`
				if err := b.SetAside(t.Context(), outbox.Refused{Item: outbox.Item{ID: id, Body: []byte(body)}, Reason: "no room"}); err != nil {
					t.Fatal(err)
				}
			}
			if b.rejected = "lead_b"; fails {
				b.unanswered = "lead_b"
				b.h.aside.Now = 1 // the other one goes in a request of its own
			}
			b.h.offerRejected(t.Context())
			text, err := os.ReadFile(b.path + ".rejected")
			if err != nil || strings.Contains(string(text), "lead_a@") || !strings.Contains(string(text), "lead_b@") {
				t.Errorf("link fails %t: the file holds %s, %v", fails, text, err)
			}
			b.offered, b.rejected, b.unanswered = nil, "", ""
			b.run(t)
			pass(deferFor)
			if !slices.Equal(b.offered, []string{"lead_b"}) || b.Aside() != 0 {
				t.Errorf("link fails %t: then %v are offered, and %d bytes are aside", fails, b.offered, b.Aside())
			}
		})
	}
}

// TestRefusedLeadsAreSetAsideTogether: the leads of a batch that the origin does not take cost one
// sync and one line in the log, so that they hold up no others for long.
func TestRefusedLeadsAreSetAsideTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		disk := durabletest.New(t, dir)
		b := newHanded(t, disk, filepath.Join(dir, "outbox"))
		var log bytes.Buffer
		b.h.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		b.h.warnings = logging.New(b.h.cfg.Log)
		b.add(t, 0, maxBatch)
		b.rejected = "all"
		syncs := 0
		disk.Before(func(op durabletest.Op) error {
			if op.Kind == durabletest.Sync && op.Path == b.path+".rejected" {
				syncs++
			}
			return nil
		})
		if _, err := b.h.next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if lines := strings.Count(log.String(), "\n"); syncs != 1 || lines != 1 {
			t.Errorf("%d syncs, %d lines in the log; want one of each", syncs, lines)
		}
		if b.Len() != 0 || b.counted["rejected"] != maxBatch {
			t.Errorf("%d leads wait, counted are %v", b.Len(), b.counted)
		}
	})
}

// TestLeadsDoNotWaitForThoseAside: a lead that comes while many that were set aside are offered
// again is at the origin with the next request but one. Those that it refuses meanwhile are
// offered again later as well, though all others were taken.
func TestLeadsDoNotWaitForThoseAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHanded(t, durable.OS{}, filepath.Join(t.TempDir(), "outbox"))
		const aside = 10 * maxBatch
		var refused []outbox.Refused
		for i := range aside {
			id := fmt.Sprint("aside_", i)
			refused = append(refused, outbox.Refused{Item: outbox.Item{ID: id, Body: []byte(`{"id":"` + id + `","key_hash":""}`)}, Reason: "no room"})
		}
		if err := b.SetAside(t.Context(), refused...); err != nil {
			t.Fatal(err)
		}
		const came = 2
		asks, waited, began := 0, 0, time.Now()
		b.asked = func() {
			switch asks++; {
			case asks == came:
				b.rejected = "lead_1"
				b.add(t, 0, 2)
			case time.Since(began) > time.Minute:
				b.rejected = ""
			case asks > came && b.committed["lead_0"] == 0:
				waited++
			}
		}
		b.run(t)
		pass(deferFor + time.Minute)
		if waited > 2 || b.committed["lead_0"] != 1 {
			t.Errorf("a lead that came with request %d of %d was handed over %d times, after %d others", came, asks, b.committed["lead_0"], waited)
		}
		if n := len(b.offered); n != aside+1 || b.offered[n-1] != "lead_1" || b.Aside() != 0 {
			t.Errorf("%d leads of %d are offered again, then %v; %d bytes are aside", min(n, aside), aside, b.offered[min(n, aside):], b.Aside())
		}
	})
}
