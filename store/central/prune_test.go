package central

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
	"partneredge/store/central/idempotency"
)

// TestPruneRecords removes what came in before a time, of each kind, and no more. What
// nodes keep of it changes, and an account whose insights are gone still has a history.
func TestPruneRecords(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		clock := &fakeClock{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
		d := openWith(t, p, Config{Now: clock.now})
		ctx := audit.WithActor(context.Background(), store.Actor{ID: "tok_x", Role: store.RoleAdmin})
		old := newAccount(t, d, store.ModeSetup).ID
		both := newAccount(t, d, store.ModeSetup).ID
		add := func(account string) {
			for i := range 3 {
				must2(d.AddFiring(ctx, store.Firing{AccountID: account, Name: "x"}))(t)
				must2(d.AddCoachingRun(ctx, account, []store.Insight{{Headline: "h", Detail: "d"}}))(t)
				must2(d.AddContact(ctx, store.Contact{AccountID: account, ClientID: "c", Channel: "sms"}))(t)
				l := leadFor(account)
				l.ID = store.NewID("lead", clock.at)
				must(d.AddLeads(ctx, "", offered(l)))(t)
				_, _, err := d.UpdateAccount(ctx, account, AccountPatch{Name: new(fmt.Sprint(clock.at, i))})
				noError(t, err)
			}
		}
		add(old)
		add(both)
		cut := clock.at.Add(time.Hour)
		clock.at = cut.Add(time.Hour)
		add(both)
		position := must(d.ChangesSince(ctx, Position{}, 0))(t)
		for _, k := range []Aging{AgingFirings, AgingInsights, AgingContacts, AgingLeads, AgingAudit} {
			removed, rounds, cursor := 0, 0, new(AgingCursor)
			for n := 1; n > 0; rounds++ {
				n = must(d.PruneRecords(ctx, k, cut, 4, cursor))(t)
				removed += n
			}
			var left int
			noError(t, d.db.QueryRow(ctx, `SELECT count(*) FROM `+k.table).Scan(&left))
			if removed != 6 || left != 3 || rounds != 3 {
				t.Errorf("%s: %d went in %d rounds and %d are left, want 6 in 3 and 3", k.table, removed, rounds, left)
			}
		}
		log := must(d.ChangesSince(ctx, Position{History: position.History, Seq: position.Latest}, 0))(t)
		for _, account := range []string{old, both} {
			for _, kind := range []store.ChangeKind{store.ChangeFirings, store.ChangeInsights} {
				if !slices.ContainsFunc(log.Changes, func(c store.Change) bool { return c.Kind == kind && c.Ref == account }) {
					t.Errorf("nodes do not learn that %s of an account went: %v", kind, log.Changes)
				}
			}
		}
		if v := must(d.Insights(ctx, old, time.Time{}, 0))(t); len(v.Items) != 0 || !v.History {
			t.Errorf("the account whose insights are gone shows %+v", v)
		}
		if v := must(d.Firings(ctx, both, time.Time{}, 0))(t); len(v.Items) != 3 {
			t.Errorf("firings %+v", v)
		}
		for _, statement := range []string{`DELETE FROM audit`, `UPDATE audit_since SET at = 0`, `DELETE FROM audit_since`} {
			if err := d.change(ctx, "", func(ctx context.Context, t *tx) error {
				_, err := t.Exec(ctx, statement)
				return err
			}); err == nil || !strings.Contains(err.Error(), "only grows") {
				t.Errorf("%s: %v", statement, err)
			}
		}
		_, err := d.PruneRecords(ctx, Aging{}, cut, 4, new(AgingCursor))
		wantErr(t, err, store.ErrInvalid)
		_, err = d.PruneRecords(ctx, AgingLeads, time.Time{}, 4, new(AgingCursor))
		wantErr(t, err, store.ErrInvalid)
	})
}

// TestLongReadLeavesPruningCheap removes contacts, leads, subscriptions, and answers to
// idempotency keys, in slices while somebody reads the database, so that their dead entries stay
// in the index: no slice steps over those of the slices before.
func TestLongReadLeavesPruningCheap(t *testing.T) {
	const slices, slice = 20, 50
	p := place{"postgres", centraltest.Postgres(t)}
	clock := &fakeClock{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
	ctx, d := t.Context(), openWith(t, p, Config{Now: clock.now})
	account := newAccount(t, d, store.ModeSetup).ID
	noError(t, d.db.WriteAlone(ctx, func(ctx context.Context, x *db.Tx) error {
		if _, err := x.Exec(ctx, `INSERT INTO contacts (id, account_id, client_id, channel, occurred_at)
			SELECT ? || lpad(n::text, 6, '0'), ?, 'c', 'sms', 1 FROM generate_series(1, ?::bigint) n`,
			db.FirstID("con", clock.at), account, slices*slice); err != nil {
			return err
		}
		if _, err := x.Exec(ctx, `INSERT INTO idempotency (account_id, name, digest, answer, created_at)
			SELECT ?, n::text, '', '', n FROM generate_series(1, ?::bigint) n`, account, slices*slice); err != nil {
			return err
		}
		// As many leads are young, whatever their ids say.
		if _, err := x.Exec(ctx, `INSERT INTO leads (id, account_id, key_id, environment, first_name, last_name, email, phone,
				consent_status, consent_text, captured_at, outreach_allowed, created_at, received_at)
			SELECT n::text, ?, '', 'live', '', '', '', '', 'none', '', 0, 0, 1, CASE WHEN n > ?::bigint THEN n ELSE ? END
			FROM generate_series(1, 2 * ?::bigint) n`, account, slices*slice, store.Micros(clock.at.Add(2*day)), slices*slice); err != nil {
			return err
		}
		// As many subscriptions are not revoked.
		if _, err := x.Exec(ctx, `INSERT INTO subscriptions (id, account_id, key_id, environment, target_url, events, secret, created_at, revoked_at)
			SELECT n::text, ?, '', 'live', '', '[]', '', 1, greatest(n - ?::bigint, 0) FROM generate_series(1, 2 * ?::bigint) n`,
			account, slices*slice, slices*slice); err != nil {
			return err
		}
		_, err := x.Exec(ctx, `ANALYZE contacts, idempotency, leads, subscriptions`)
		return err
	}))
	readForLong(t, p.url)
	contacts, leads, subscriptions, answers := new(AgingCursor), new(AgingCursor), new(AgingCursor), new(idempotency.PruneCursor)
	for table, next := range map[string]func(before time.Time) (int, error){
		"contacts": func(before time.Time) (int, error) {
			return d.PruneRecords(ctx, AgingContacts, before, slice, contacts)
		},
		"leads": func(before time.Time) (int, error) { return d.PruneRecords(ctx, AgingLeads, before, slice, leads) },
		"subscriptions": func(before time.Time) (int, error) {
			return d.PruneRecords(ctx, AgingSubscriptions, before, slice, subscriptions)
		},
		"idempotency": func(before time.Time) (int, error) { return d.PruneAnswers(ctx, before, slice, answers) },
	} {
		before, removed := entriesRead(t, d, table), 0
		for n := 1; n > 0; removed += n {
			n = must(next(clock.at.Add(day)))(t)
		}
		// Each is found once, and once more to be deleted.
		if read := entriesRead(t, d, table) - before; removed != slices*slice || read < slices*slice || read > 3*slices*slice {
			t.Errorf("%s: to remove %d of %d, %d entries are read", table, removed, slices*slice, read)
		}
	}
}

// TestLeadsGoByWhenTheyCameIn prunes leads whose ids have the time of a clock that is years
// behind or ahead, or none: all are kept for as long from when they came in, whenever a node
// took them, and the oldest go first.
func TestLeadsGoByWhenTheyCameIn(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx, clock := context.Background(), &fakeClock{time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}
		d := openWith(t, p, Config{Now: clock.now})
		account := newAccount(t, d, store.ModeSetup).ID
		var ids []string
		for _, at := range []time.Time{clock.at, clock.at.AddDate(-5, 0, 0), clock.at.AddDate(10, 0, 0)} {
			ids = append(ids, store.NewID("lead", at))
		}
		ids = append(ids, "lead_dup1", "crm-42", "7")
		for _, id := range ids {
			l := leadFor(account)
			l.ID, l.CreatedAt = id, clock.at.AddDate(0, 0, -3)
			if done := must(d.AddLeads(ctx, "", offered(l)))(t); len(done.Committed) != 1 {
				t.Fatalf("%+v", done)
			}
			clock.at = clock.at.Add(time.Minute)
		}
		came := clock.at.Add(-time.Duration(len(ids)) * time.Minute)
		if n := must(d.PruneRecords(ctx, AgingLeads, came, 4, new(AgingCursor)))(t); n != 0 {
			t.Errorf("%d leads went from before the first came in", n)
		}
		cursor := new(AgingCursor)
		for gone := range len(ids) {
			before := came.Add(time.Duration(gone)*time.Minute + time.Second)
			if n := must(d.PruneRecords(ctx, AgingLeads, before, 4, cursor))(t); n != 1 {
				t.Errorf("%d leads went that came in before %v, want 1", n, before)
			}
			if _, err := d.Lead(ctx, ids[gone]); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the lead %s stayed: %v", ids[gone], err)
			}
		}
	})
}

// TestRetentionRound: what is noted of a round is read again, and a new one replaces all of it.
func TestRetentionRound(t *testing.T) {
	each(t, func(t *testing.T, p place) {
		ctx, d := context.Background(), openWith(t, p, Config{})
		at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		if r := must(d.RetentionRound(ctx))(t); r != (RetentionRound{}) {
			t.Errorf("before the first round: %+v", r)
		}
		for _, want := range []RetentionRound{{At: at}, {at, at.Add(day), 10 * time.Minute}, {At: at.Add(day)}} {
			noError(t, d.NoteRetentionRound(ctx, want))
			if r := must(d.RetentionRound(ctx))(t); r != want {
				t.Errorf("noted %+v, read %+v", want, r)
			}
		}
	})
}
