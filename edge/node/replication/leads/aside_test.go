package leads

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"partneredge/store/durable"
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
				if err := b.SetAside(t.Context(), outbox.Item{ID: id, Body: []byte(body)}, "no room"); err != nil {
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
