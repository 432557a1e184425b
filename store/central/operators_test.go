package central

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/db/dbtest"
	"partneredge/store/central/deliveries"
)

var ana = store.Actor{ID: "tok_1", Name: "Ana", Role: store.RoleAdmin, Remote: "192.0.2.7"}

// TestAuditLog: each change of an actor is one entry with what was and what is,
// and a change that fails is none.
func TestAuditLog(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := audit.WithActor(context.Background(), ana)
		a := must(db.CreateAccount(ctx, store.Account{Name: "Harbor", Agent: store.Agent{Email: "a@b.c", FullName: "A"}}))(t)
		live := store.ModeLive
		_, _, err := db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: &live})
		noError(t, err)
		_, _, err = db.UpdateAccount(ctx, a.ID, AccountPatch{Mode: &live}) // changes nothing
		noError(t, err)
		k := must(db.CreateKey(ctx, keyFor(a.ID)))(t)
		_, err = db.CreateKey(ctx, k) // its id is taken
		wantErr(t, err, store.ErrConflict)
		next, _, err := db.RotateKey(ctx, k.ID, keyFor(""), time.Now().Add(time.Hour))
		noError(t, err)
		_, _, err = db.RevokeKey(ctx, next.ID)
		noError(t, err)
		_, _, err = db.RevokeKey(ctx, next.ID)
		noError(t, err)
		n := must(db.AddNode(ctx, store.Node{Name: "n", Region: "eu", PublicKey: "pk"}))(t)
		_, _, err = db.RevokeNode(ctx, n.ID)
		noError(t, err)
		_, _, err = db.RevokeNode(ctx, n.ID)
		noError(t, err)
		newAccount(t, db, store.ModeSetup) // by nobody

		entries, next1, err := db.Audits(ctx, AuditFilter{}, store.Page{})
		noError(t, err)
		if next1 != "" {
			t.Errorf("cursor %q", next1)
		}
		slices.Reverse(entries)
		want := []struct{ action, target string }{
			{"account.create", a.ID}, {"account.update", a.ID}, {"key.create", k.ID}, {"key.create", next.ID},
			{"key.rotate", k.ID}, {"key.revoke", next.ID}, {"node.enrol", n.ID}, {"node.revoke", n.ID},
		}
		if len(entries) != len(want) {
			t.Fatalf("%d entries, want %d: %+v", len(entries), len(want), entries)
		}
		for i, e := range entries {
			if e.Action != want[i].action || e.Target != want[i].target || e.Actor != ana || e.At.IsZero() || !strings.HasPrefix(e.ID, "aud_") {
				t.Errorf("entry %d is %+v, want %+v", i, e, want[i])
			}
			if bytes.Contains(append(e.Before, e.After...), []byte(`"hash"`)) {
				t.Errorf("entry %d shows a hash", i)
			}
		}
		var was, is store.Account
		noError(t, json.Unmarshal(entries[1].Before, &was))
		noError(t, json.Unmarshal(entries[1].After, &is))
		if was != a || is.Mode != live || entries[0].Before != nil {
			t.Errorf("before %+v, after %+v, before the first %s", was, is, entries[0].Before)
		}

		of, _, err := db.Audits(ctx, AuditFilter{Target: k.ID}, store.Page{Limit: 1})
		noError(t, err)
		if len(of) != 1 || of[0].Action != "key.rotate" {
			t.Errorf("of the key: %+v", of)
		}
		if of, _, err := db.Audits(ctx, AuditFilter{Target: "a\x00b"}, store.Page{}); err != nil || len(of) != 0 {
			t.Errorf("of what cannot be: %v, %v", of, err)
		}
		page, cursor, err := db.Audits(ctx, AuditFilter{}, store.Page{Limit: 5})
		noError(t, err)
		rest, _, err := db.Audits(ctx, AuditFilter{}, store.Page{Limit: 5, Cursor: cursor})
		noError(t, err)
		if len(page) != 5 || len(rest) != 3 || rest[2].Action != "account.create" {
			t.Errorf("pages of %d and %d", len(page), len(rest))
		}
		_, _, err = db.Audits(ctx, AuditFilter{}, store.Page{Cursor: "-!"})
		wantErr(t, err, store.ErrInvalid)

		// The database itself refuses to have the log changed.
		for _, statement := range []string{`UPDATE audit SET name = 'Eve'`, `DELETE FROM audit`} {
			if err := db.change(ctx, "", func(ctx context.Context, t *tx) error {
				_, err := t.Exec(ctx, statement)
				return err
			}); err == nil || !strings.Contains(err.Error(), "only grows") {
				t.Errorf("%s: %v", statement, err)
			}
		}
	})
}

// TestAuditOfDeliveries: what an operator has sent again is in the log.
func TestAuditOfDeliveries(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := context.Background()
		a := newAccount(t, db, store.ModeLive)
		noError(t, db.AddSubscription(ctx, subscriptionFor(a.ID, store.EventClientContacted)))
		subs, _, err := db.Subscriptions(ctx, a.ID, store.Page{})
		noError(t, err)
		_, _, err = db.AddContact(ctx, store.Contact{AccountID: a.ID, ClientID: "c", Channel: "sms"})
		noError(t, err)
		list, _, err := db.Deliveries(ctx, deliveries.Filter{SubscriptionID: subs[0].ID}, store.Page{})
		noError(t, err)
		if counts := must(db.CountOutcomes(ctx, time.Now().Add(-time.Hour)))(t); len(counts) != 1 || counts[store.StatePending] != 1 {
			t.Errorf("outcomes %v", counts)
		}
		if counts := must(db.CountOutcomes(ctx, time.Now().Add(time.Hour)))(t); len(counts) != 0 {
			t.Errorf("outcomes of the future %v", counts)
		}
		noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error {
			_, err := t.Exec(ctx, `UPDATE deliveries SET state = 'dead'`)
			return err
		}))
		_, _, err = db.RecoverDeliveries(audit.WithActor(ctx, ana), subs[0].ID, store.Span{}, "", 0)
		noError(t, err)
		must(db.RetryDelivery(audit.WithActor(ctx, ana), list[0].ID))(t) // pending already
		noError(t, db.change(ctx, "", func(ctx context.Context, t *tx) error {
			_, err := t.Exec(ctx, `UPDATE deliveries SET state = 'dead'`)
			return err
		}))
		must(db.RetryDelivery(audit.WithActor(ctx, ana), list[0].ID))(t)
		entries, _, err := db.Audits(ctx, AuditFilter{}, store.Page{})
		noError(t, err)
		if len(entries) != 2 || entries[0].Action != "delivery.retry" || string(entries[0].Before) != `{"state":"dead"}` ||
			entries[1].Action != "webhook.recover" || !bytes.Contains(entries[1].After, []byte(`"queued":1`)) {
			t.Errorf("%+v", entries)
		}
	})
}

func TestTokens(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		db := open(t, p)
		ctx := audit.WithActor(context.Background(), ana)
		hash := sha256.Sum256([]byte("secret"))
		made := must(db.CreateToken(ctx, store.Token{Name: "Ben", Role: store.RoleViewer, Hash: hash}))(t)
		if !strings.HasPrefix(made.ID, "tok_") || made.CreatedAt.IsZero() {
			t.Errorf("made %+v", made)
		}
		if got := must(db.TokenByHash(ctx, hash))(t); got != made {
			t.Errorf("read %+v, want %+v", got, made)
		}
		used := made.CreatedAt.Add(time.Hour)
		for _, at := range []time.Time{used, used.Add(-time.Minute)} { // the second comes late
			noError(t, db.UsedToken(ctx, made.ID, at))
		}
		if got := must(db.TokenByHash(ctx, hash))(t); !got.LastUsedAt.Equal(used) {
			t.Errorf("last used %v, want %v", got.LastUsedAt, used)
		}
		end := made.CreatedAt.Add(24 * time.Hour)
		ending := must(db.CreateToken(ctx, store.Token{Name: "Eve", Role: store.RoleViewer, Hash: sha256.Sum256([]byte("2")), ExpiresAt: end}))(t)
		if got := must(db.TokenByHash(ctx, ending.Hash))(t); got != ending || !got.ExpiresAt.Equal(end) {
			t.Errorf("read %+v, want %+v", got, ending)
		}
		_, err := db.TokenByHash(ctx, sha256.Sum256(nil))
		wantErr(t, err, store.ErrNotFound)
		_, err = db.CreateToken(ctx, store.Token{Role: store.RoleAdmin, Hash: hash})
		wantErr(t, err, store.ErrConflict)
		for _, bad := range []store.Token{
			{Role: "root", Hash: sha256.Sum256([]byte("1"))}, {Role: store.RoleAdmin},
			{Role: store.RoleAdmin, Hash: sha256.Sum256([]byte("1")), Name: "a\x00"},
		} {
			_, err := db.CreateToken(ctx, bad)
			wantErr(t, err, store.ErrInvalid)
		}
		for i := range 2 {
			revoked, changed, err := db.RevokeToken(ctx, made.ID)
			if noError(t, err); changed != (i == 0) || revoked.RevokedAt.IsZero() {
				t.Errorf("revoked: %v %+v", changed, revoked)
			}
		}
		if got := must(db.TokenByHash(ctx, hash))(t); got.RevokedAt.IsZero() {
			t.Error("not revoked")
		}
		for _, id := range append(badTexts, "", "tok_none") {
			_, _, err := db.RevokeToken(ctx, id)
			wantErr(t, err, store.ErrNotFound)
		}
		list, _, err := db.Tokens(ctx, store.Page{})
		noError(t, err)
		entries, _, err := db.Audits(ctx, AuditFilter{Target: made.ID}, store.Page{})
		noError(t, err)
		if len(list) != 2 || len(entries) != 2 || entries[0].Action != "token.revoke" {
			t.Errorf("list %+v, log %+v", list, entries)
		}
		for _, e := range entries {
			if text := string(e.Before) + string(e.After); strings.Contains(text, hex.EncodeToString(hash[:])) || strings.Contains(text, `"hash"`) {
				t.Errorf("the log shows the hash: %s", text)
			}
		}
	})
}

// TestAuditSpan lists the entries of a time range, by pages.
func TestAuditSpan(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		began := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		now := began
		d := openWith(t, p, Config{Now: func() time.Time { return now }})
		ctx := audit.WithActor(t.Context(), store.Actor{ID: "tok_1", Name: "Kim", Role: store.RoleAdmin})
		at := func(s store.Span, target string) (all []int) {
			t.Helper()
			for page := (store.Page{Limit: 7}); ; {
				entries, next, err := d.Audits(ctx, AuditFilter{Target: target, Span: s}, page)
				noError(t, err)
				for _, e := range entries {
					all = append(all, int(e.At.Sub(began)/(10*time.Second)))
				}
				if page.Cursor = next; next == "" {
					slices.Reverse(all)
					return all
				}
			}
		}
		if got := at(store.Span{Since: began, Until: began.Add(time.Hour)}, ""); len(got) != 0 {
			t.Errorf("an empty log has %v", got)
		}
		const entries = 300 // 10 seconds apart
		for i := range entries {
			now = began.Add(time.Duration(i) * 10 * time.Second)
			noError(t, d.Audit(ctx, "test.do", []string{"even", "odd"}[i%2], nil))
		}
		from := func(first, last, step int) (all []int) {
			for i := first; i < last; i += step {
				all = append(all, i)
			}
			return all
		}
		moment := func(i int) time.Time { return began.Add(time.Duration(i) * 10 * time.Second) }
		for name, c := range map[string]struct {
			span   store.Span
			target string
			want   []int
		}{
			"all":       {store.Span{}, "", from(0, entries, 1)},
			"since":     {store.Span{Since: moment(280)}, "", from(280, entries, 1)},
			"until":     {store.Span{Until: moment(20)}, "", from(0, 20, 1)},
			"both":      {store.Span{Since: moment(100), Until: moment(130)}, "", from(100, 130, 1)},
			"of one":    {store.Span{Since: moment(100), Until: moment(130)}, "odd", from(101, 130, 2)},
			"within":    {store.Span{Since: moment(100).Add(time.Second), Until: moment(101)}, "", nil},
			"before":    {store.Span{Until: began}, "", nil},
			"after":     {store.Span{Since: moment(entries)}, "", nil},
			"of 1970":   {store.Span{Since: time.UnixMicro(1), Until: time.Unix(61, 0)}, "", nil},
			"backwards": {store.Span{Since: moment(130), Until: moment(100)}, "", nil},
		} {
			if got := at(c.span, c.target); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
		_, _, err := d.Audits(ctx, AuditFilter{Span: store.Span{Since: time.Unix(-1, 0)}}, store.Page{})
		wantErr(t, err, store.ErrInvalid)
	})
}

// TestAuditSpanAfterClockSteps lists entries by time where a clock was set forward, and
// then back, and reads nothing of a large log but those.
func TestAuditSpanAfterClockSteps(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		began := time.Date(2026, 3, 2, 4, 0, 0, 0, time.UTC)
		now := began
		d := openWith(t, p, Config{Now: func() time.Time { return now }})
		ctx := audit.WithActor(t.Context(), ana)
		var minutes []int
		for i := range 20 {
			minutes = append(minutes, []int{i, 90, 4*i - 60}[i%3])
		}
		minutes = append(minutes, 60, 4, 7, 10, 13, 16, 16, 120, 5, -90)
		for _, m := range minutes {
			now = began.Add(time.Duration(m) * time.Minute)
			noError(t, d.Audit(ctx, "test.do", "one", m))
		}
		within := func(since, until int) (all []int) {
			for _, m := range minutes {
				if m >= since && m < until {
					all = append(all, m)
				}
			}
			slices.Sort(all)
			return all
		}
		now = began.Add(-24 * time.Hour)
		noError(t, d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) error {
			for range 3000 { // of the day before, but with the highest numbers
				if err := audit.LogOf(ctx).Add(ctx, t, audit.Entry{Action: "test.do", Target: "two"}); err != nil {
					return err
				}
			}
			_, err := t.Exec(ctx, `ANALYZE audit`)
			return err
		}))
		for _, c := range [][2]int{{0, 30}, {-30, 0}, {4, 17}, {60, 61}, {90, 91}, {-90, 121}, {-91, -60}, {120, 1000}} {
			span := store.Span{Since: began.Add(time.Duration(c[0]) * time.Minute), Until: began.Add(time.Duration(c[1]) * time.Minute)}
			for _, target := range []string{"", "one"} {
				var got []int
				for page := (store.Page{Limit: 3}); ; {
					entries, next, err := d.Audits(ctx, AuditFilter{Target: target, Span: span}, page)
					noError(t, err)
					for _, e := range entries {
						got = append(got, int(e.At.Sub(began)/time.Minute))
					}
					if page.Cursor = next; next == "" {
						break
					}
				}
				if target == "" && !slices.IsSortedFunc(got, func(a, b int) int { return b - a }) {
					t.Errorf("%v are not the newest first: %v", c, got)
				}
				if slices.Sort(got); !slices.Equal(got, within(c[0], c[1])) {
					t.Errorf("%v of target %q: %v, want %v", c, target, got, within(c[0], c[1]))
				}
			}
		}
		since, until := began, began.Add(30*time.Minute)
		plan := dbtest.Explain(t, d.db, auditsIn, db.FirstID("aud", since), db.FirstID("aud", until), store.Micros(since), store.Micros(until), 51)
		for _, bad := range []string{"SCAN", "Seq Scan", "Rows Removed by Filter", "TEMP B-TREE", "audit_pkey"} {
			if strings.Contains(plan, bad) {
				t.Errorf("the plan reads more than the span:\n%s", plan)
			}
		}
	})
}
