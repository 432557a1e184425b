package central

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/valid"
)

// oddLeads returns leads that differ from leadFor in one odd value each.
func oddLeads(account string) (leads []store.Lead) {
	with := func(change func(*store.Lead)) {
		l := leadFor(account)
		change(&l)
		leads = append(leads, l)
	}
	for _, text := range append([]string{
		"", " ", "\x01\x1f\x7f\u0085", "\u2028<&>\"'\\", "\ufffd\uffff\ufeff", "\U0010ffff", "e\u0301", "\\000", "\\x00", "$1 ? %s",
		strings.Repeat("\U0010ffff", 10_000), strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20+1), "\xed\xa0\x80",
	}, badTexts...) {
		with(func(l *store.Lead) { l.FirstName = text })
		with(func(l *store.Lead) { l.LastName = text })
		with(func(l *store.Lead) { l.Email = text })
		with(func(l *store.Lead) { l.Phone = text })
		with(func(l *store.Lead) { l.ConsentText = text })
		with(func(l *store.Lead) { l.KeyID = text })
		with(func(l *store.Lead) { l.ConsentStatus, l.OutreachAllowed = text, false })
	}
	for _, id := range []string{"", "x\x00", strings.Repeat("é", 100), strings.Repeat("é", 100) + "x"} {
		with(func(l *store.Lead) { l.ID = id })
	}
	for _, at := range []time.Time{
		{}, time.Unix(0, 0), time.UnixMicro(1), time.UnixMicro(-1), time.Unix(86_400, 0), time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)),
	} {
		with(func(l *store.Lead) { l.CapturedAt = at.UTC() })
		if !at.IsZero() {
			with(func(l *store.Lead) { l.CreatedAt = at.UTC() })
		}
	}
	for _, status := range []string{"none", "inbound_initiated", "express_written"} {
		with(func(l *store.Lead) { l.ConsentStatus = status })
	}
	with(func(l *store.Lead) { l.Environment = store.Test })
	return leads
}

// TestValidLeadsAreKept: both databases keep every lead that valid.Lead passes,
// by which nodes judge before they acknowledge one, and read it as it was given.
func TestValidLeadsAreKept(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		a := newAccount(t, db, store.ModeLive)
		passed := 0
		for i, l := range oddLeads(a.ID) {
			done, err := db.AddLeads(t.Context(), "node_x", offered(l))
			what := fmt.Sprintf("lead %d: %.300q", i, fmt.Sprint(l))
			if invalid := valid.Lead(l); invalid != nil {
				if err != nil || len(done.Committed) != 0 || done.Quarantined[l.ID] != invalid.Error() {
					t.Errorf("%s: %v, %v; want %v", what, done, err, invalid)
				}
				continue
			}
			passed++
			if err != nil || len(done.Committed) != 1 || len(done.Quarantined)+len(done.Rejected) != 0 {
				t.Errorf("%s: %v, %v", what, done, err)
				continue
			}
			got, err := leadTable.Read(t.Context(), db.db, l.ID)
			if noError(t, err); !reflect.DeepEqual(got, l) {
				t.Errorf("%s: read %.300q", what, fmt.Sprint(got))
			}
		}
		if passed < 50 {
			t.Errorf("%d leads passed", passed)
		}
	})
}
