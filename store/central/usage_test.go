package central

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/usage"
	"partneredge/store/grant"
)

// TestUsageInAnyOrder has two origins record the running totals of several nodes at
// once, in any order and some of them twice: what each key was used for is the sum of
// how far each counter came.
func TestUsageInAnyOrder(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		origins := []*DB{open(t, p), open(t, p)}
		a := newAccount(t, origins[0], store.ModeLive)
		today := store.DayOf(origins[0].Now())
		want := make(map[string]map[store.Day]store.KeyDay)
		var reports []map[usage.Counter]usage.Count
		var keys []store.Key
		for range 3 {
			k := must(origins[0].CreateKey(ctx, keyFor(a.ID)))(t)
			keys, want[k.ID] = append(keys, k), make(map[store.Day]store.KeyDay)
		}
		for _, boot := range []string{"node_1 1", "node_1 2", "node_2 1"} {
			node, boot, _ := strings.Cut(boot, " ")
			for day := today - 2; day <= today; day++ {
				counts := make(map[usage.Counter]usage.Count)
				for range 20 { // reports, each of some keys
					for _, k := range keys {
						if rand.N(3) == 0 {
							continue
						}
						c := usage.Counter{KeyID: k.ID, Day: day, Node: node, Boot: boot}
						n := counts[c]
						n.Requests, n.Limited, n.Hash = n.Requests+rand.N[int64](5)+1, n.Limited+rand.N[int64](2), k.Hash[:]
						n.LastUsed = day.Start().Add(time.Duration(n.Requests))
						counts[c] = n
					}
					reports = append(reports, maps.Clone(counts))
				}
				for c, n := range counts {
					d := want[c.KeyID][day]
					want[c.KeyID][day] = store.KeyDay{Day: day, Requests: d.Requests + n.Requests, Limited: d.Limited + n.Limited}
				}
			}
		}
		var all sync.WaitGroup
		for _, origin := range origins {
			all.Go(func() {
				twice := append(append(reports[:0:0], reports...), reports[:len(reports)/2]...)
				for _, i := range rand.Perm(len(twice)) {
					if refused, err := origin.RecordUsage(ctx, twice[i]); err != nil || len(refused) > 0 {
						t.Errorf("recording: %v, %v", refused, err)
					}
				}
			})
		}
		all.Wait()
		for id, days := range want {
			got := make(map[store.Day]store.KeyDay)
			for _, d := range must(origins[1].KeyUsage(ctx, id, today-30))(t) {
				got[d.Day] = d
			}
			if !reflect.DeepEqual(got, days) {
				t.Errorf("key %s was used %v, want %v", id, got, days)
			}
		}
	})
}

// TestUsage records what a key was used for, and leaves out what no node can have
// counted.
func TestUsage(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		now := time.Date(2026, 3, 2, 23, 59, 0, 0, time.UTC)
		db := openWith(t, p, Config{Now: func() time.Time { return now }})
		a := newAccount(t, db, store.ModeLive)
		used, unused := must(db.CreateKey(ctx, keyFor(a.ID)))(t), must(db.CreateKey(ctx, keyFor(a.ID)))(t)
		today := store.DayOf(now)
		record := func(c usage.Counter, n usage.Count) map[usage.Counter]string {
			t.Helper()
			refused, err := db.RecordUsage(ctx, map[usage.Counter]usage.Count{c: n})
			noError(t, err)
			return refused
		}
		counter := usage.Counter{KeyID: used.ID, Day: today, Node: "node_1", Boot: "b"}
		count := usage.Count{Requests: 7, Limited: 2, LastUsed: now.Add(-time.Minute), Hash: used.Hash[:]}
		if refused := record(counter, count); len(refused) > 0 {
			t.Errorf("refused are %v", refused)
		}
		tomorrow := counter
		tomorrow.Day++ // by a clock that is ahead
		record(tomorrow, usage.Count{Requests: 1, LastUsed: now.Add(time.Hour), Vouched: true})
		reasons := map[string]string{
			"no hash": string(grant.NoHash), "another key's hash": string(grant.OtherKey), "less than nothing": usage.RefusedCount,
			"more limited than asked for": usage.RefusedCount, "more than a day has": usage.RefusedCount, "a boot that is none": usage.RefusedCount,
			"too old": usage.RefusedDay, "yet to come": usage.RefusedDay, "used in no year": usage.RefusedDay, "too old, of another key": string(grant.OtherKey),
		}
		for name, change := range map[string]func(*usage.Counter, *usage.Count){
			"an unknown key":              func(c *usage.Counter, _ *usage.Count) { c.KeyID = "key_none" },
			"an impossible key":           func(c *usage.Counter, _ *usage.Count) { c.KeyID = "key_\xff" },
			"no hash":                     func(_ *usage.Counter, n *usage.Count) { n.Hash = nil },
			"another key's hash":          func(_ *usage.Counter, n *usage.Count) { n.Hash = unused.Hash[:] },
			"too old":                     func(c *usage.Counter, _ *usage.Count) { c.Day = today - 91 },
			"yet to come":                 func(c *usage.Counter, _ *usage.Count) { c.Day = today + 2 },
			"used in no year":             func(_ *usage.Counter, n *usage.Count) { n.LastUsed = time.Unix(1<<40, 0) },
			"too old, of another key":     func(c *usage.Counter, n *usage.Count) { c.Day, n.Hash = 0, unused.Hash[:] },
			"less than nothing":           func(_ *usage.Counter, n *usage.Count) { n.Limited = -1 },
			"more limited than asked for": func(_ *usage.Counter, n *usage.Count) { n.Limited = n.Requests + 1 },
			"more than a day has":         func(_ *usage.Counter, n *usage.Count) { n.Requests = 1<<40 + 1 },
			"less than was counted":       func(_ *usage.Counter, n *usage.Count) { n.Requests, n.Limited = 6, 1 },
			"a boot that is none":         func(c *usage.Counter, _ *usage.Count) { c.Boot = "\x00" },
		} {
			c, n := counter, count
			n.Requests = 1000
			change(&c, &n)
			if refused := record(c, n); refused[c] != reasons[name] {
				t.Errorf("%s: refused are %v", name, refused)
			}
		}
		want := []store.KeyDay{{Day: today + 1, Requests: 1}, {Day: today, Requests: 7, Limited: 2}}
		if got := must(db.KeyUsage(ctx, used.ID, today-30))(t); !reflect.DeepEqual(got, want) {
			t.Errorf("days are %v, want %v", got, want)
		}
		uses := must(db.KeyUses(ctx, []string{used.ID, unused.ID, "key_none", "\xff"}, today-30))(t)
		if want := map[string]store.KeyUse{used.ID: {LastUsedAt: now, Requests: 8, Limited: 2}, unused.ID: {}}; !reflect.DeepEqual(uses, want) {
			t.Errorf("uses are %v, want %v", uses, want)
		}
		if got := must(db.KeyUsage(ctx, used.ID, today+1))(t); len(got) != 1 {
			t.Errorf("since tomorrow: %v", got)
		}
		now = now.Add(usage.Kept)
		for _, want := range []int{0, 1, 0} { // the first is of a time before which nothing is
			before := now.Add(-usage.Kept)
			if want == 1 {
				before = before.Add(time.Hour)
			}
			if removed, err := db.PruneKeyUsage(ctx, before, 10); err != nil || removed != want {
				t.Errorf("pruned %d, %v, want %d", removed, err, want)
			}
		}
		if _, err := db.PruneKeyUsage(context.Background(), time.Time{}, 10); err == nil {
			t.Error("pruned without a time")
		}
		if got := must(db.KeyUses(ctx, []string{used.ID}, 0))(t)[used.ID]; got.LastUsedAt.IsZero() || got.Requests != 1 {
			t.Errorf("after the pruning: %+v", got)
		}
	})
}

// TestUsageOfManyBoots has a node report a key under ever new boots, each with as much as
// is believed: 32 of a day are kept, which may go on, and their sum can be read.
func TestUsageOfManyBoots(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx := t.Context()
		db := open(t, p)
		k := must(db.CreateKey(ctx, keyFor(newAccount(t, db, store.ModeLive).ID)))(t)
		today := store.DayOf(db.Now())
		of := func(day store.Day, boot int) usage.Counter {
			return usage.Counter{KeyID: k.ID, Day: day, Node: "node_1", Boot: fmt.Sprintf("boot %02d", boot)}
		}
		most := usage.Count{Requests: 1 << 40, Limited: 1 << 40, Hash: k.Hash[:]}
		for boot := range 34 {
			must(db.RecordUsage(ctx, map[usage.Counter]usage.Count{of(today, boot): {Requests: 1, Hash: k.Hash[:]}}))(t)
		}
		for boot := range 34 { // those that are kept go on
			must(db.RecordUsage(ctx, map[usage.Counter]usage.Count{of(today, boot): most}))(t)
		}
		atOnce := make(map[usage.Counter]usage.Count)
		for boot := range 34 {
			atOnce[of(today-1, boot)] = most
		}
		want := map[usage.Counter]string{of(today-1, 32): usage.RefusedCount, of(today-1, 33): usage.RefusedCount}
		if refused := must(db.RecordUsage(ctx, atOnce))(t); !reflect.DeepEqual(refused, want) {
			t.Errorf("refused are %v, want %v", refused, want)
		}
		days := must(db.KeyUsage(ctx, k.ID, today-30))(t)
		if want := []store.KeyDay{{Day: today, Requests: 1 << 45, Limited: 1 << 45}, {Day: today - 1, Requests: 1 << 45, Limited: 1 << 45}}; !reflect.DeepEqual(days, want) {
			t.Errorf("days are %v, want %v", days, want)
		}
	})
}
