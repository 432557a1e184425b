package leads

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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
				b.h.batch.Now = 1 // the other one goes in a request of its own
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
