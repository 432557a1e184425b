package central

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/usage"
)

// TestEraseWhileUsageIsReported erases accounts while nodes report what their keys were
// used for: between the two passes, and after the key has been read and before its usage
// is written.
func TestEraseWhileUsageIsReported(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		var asked atomic.Pointer[func()]
		d := openWith(t, p, Config{Now: func() time.Time {
			if ask := asked.Swap(nil); ask != nil {
				(*ask)()
			}
			return time.Now()
		}})
		count := func(k store.Key, node string) map[usage.Counter]usage.Count {
			return map[usage.Counter]usage.Count{{KeyID: k.ID, Day: store.DayOf(time.Now()), Node: node, Boot: "b"}: {Requests: 1, LastUsed: time.Now(), Vouched: true}}
		}
		report := func(counts map[usage.Counter]usage.Count) {
			t.Helper()
			_, err := d.RecordUsage(ctx, counts)
			noError(t, err)
		}

		a := newAccount(t, d, store.ModeLive)
		k := must(d.CreateKey(ctx, keyFor(a.ID)))(t)
		for _, of := range ofAccount[:len(ofAccount)-1] {
			if of.table == "keys" {
				report(count(k, "node_1"))
			}
			noError(t, d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
				_, err := of.eraseSome(ctx, t, a.ID)
				return err
			}))
		}
		_ = must(d.EraseAccount(ctx, a.ID))(t)

		a = newAccount(t, d, store.ModeLive)
		k = must(d.CreateKey(ctx, keyFor(a.ID)))(t)
		stays := newAccount(t, d, store.ModeLive)
		other := must(d.CreateKey(ctx, keyFor(stays.ID)))(t)
		counts := count(k, "node_1")
		for c, n := range count(other, "node_1") {
			counts[c] = n
		}
		erased := false
		erase := func() {
			_ = must(d.EraseAccount(ctx, a.ID))(t)
			erased = true
		}
		asked.Store(&erase)
		if report(counts); !erased {
			t.Fatal("the account was not erased after its key was read")
		}
		if p.kind == "postgres" {
			eraseAndReportAtOnce(t, d, count)
		}
		var left, ofOthers int
		noError(t, d.db.QueryRow(ctx, `SELECT count(*), count(CASE WHEN key_id <> ? THEN 1 END) FROM key_usage`, other.ID).Scan(&left, &ofOthers))
		if left != 1 || ofOthers != 0 {
			t.Errorf("%d rows are left, %d of them of erased keys", left, ofOthers)
		}
	})
}

// eraseAndReportAtOnce has the one wait for the other, in both orders, and the erasure for
// a process that writes a count without a lock of the key.
func eraseAndReportAtOnce(t *testing.T, d *DB, count func(store.Key, string) map[usage.Counter]usage.Count) {
	ctx := t.Context()
	record := func(counts map[usage.Counter]usage.Count) chan error {
		done := make(chan error, 1)
		go func() {
			_, err := d.RecordUsage(ctx, counts)
			done <- err
		}()
		return done
	}
	erase := func(account string, then func()) error {
		return d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
			for _, of := range ofAccount {
				if of.table == "keys" {
					if _, err := of.eraseSome(ctx, t, account); err != nil {
						return err
					}
				}
			}
			then()
			return nil
		})
	}

	a := newAccount(t, d, store.ModeLive)
	k := must(d.CreateKey(ctx, keyFor(a.ID)))(t)
	var recorded chan error
	noError(t, erase(a.ID, func() {
		recorded = record(count(k, "node_1"))
		waitForLocks(t, d, 1, nil)
	}))
	noError(t, <-recorded)

	for _, reported := range []bool{true, false} {
		k = must(d.CreateKey(ctx, keyFor(a.ID)))(t)
		erased := make(chan error, 1)
		noError(t, d.db.WriteAlone(ctx, func(ctx context.Context, tx *db.Tx) error {
			// Another process has not yet written the same counter.
			if _, err := tx.Exec(ctx, `INSERT INTO key_usage (key_id, day, node_id, boot, requests, limited)
				VALUES (?, ?, 'node_1', 'b', 0, 0)`, k.ID, int64(store.DayOf(time.Now()))); err != nil {
				return err
			}
			waiting := 0
			if reported {
				waiting++
				recorded = record(count(k, "node_1"))
				waitForLocks(t, d, waiting, nil)
			}
			go func() { erased <- erase(a.ID, func() {}) }()
			waitForLocks(t, d, waiting+1, nil)
			return nil
		}))
		if reported {
			noError(t, <-recorded)
		}
		noError(t, <-erased)
	}
}
