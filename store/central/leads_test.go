package central

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/db"
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

// TestLeadsOfOneIDAtTwoOrigins has two origins keep leads of the same ids at once. One whose
// content is another's than that which is kept goes to the quarantine, as it does a moment
// later, and the same lead twice is committed twice.
func TestLeadsOfOneIDAtTwoOrigins(t *testing.T) {
	ctx, p := t.Context(), place{"postgres", centraltest.Postgres(t)}
	first, second := open(t, p), open(t, p)
	account := newAccount(t, first, store.ModeLive).ID
	l, same, own := leadFor(account), leadFor(account), leadFor(account)
	other := l
	other.Email = "other@example.com"
	unread := ReadLead("lead_unread", fmt.Appendf(nil, `{"account_id":%q,"email":1}`, account))

	// Until this ends, the leads of the first are written and not committed.
	holding := must(p.another(t).BeginTx(ctx, nil))(t)
	defer func() { _ = holding.Rollback() }()
	_, err := holding.ExecContext(ctx, `LOCK TABLE quarantine IN SHARE MODE`)
	noError(t, err)
	var early, late Handover
	earlyEnded, lateEnded := make(chan error, 1), make(chan error, 1)
	go func() {
		var err error
		early, err = first.AddLeads(ctx, "node_1", append(offered(l, same), unread))
		earlyEnded <- err
	}()
	waitForLocks(t, first, 1, earlyEnded)
	go func() {
		var err error
		late, err = second.AddLeads(ctx, "node_2", offered(own, other, same))
		lateEnded <- err
	}()
	waitForLocks(t, first, 2, lateEnded)
	noError(t, holding.Rollback())
	noError(t, <-earlyEnded)
	noError(t, <-lateEnded)

	if want := []string{l.ID, same.ID}; !slices.Equal(early.Committed, want) {
		t.Errorf("the first committed %v, want %v", early.Committed, want)
	}
	if want := []string{own.ID, same.ID}; !slices.Equal(late.Committed, want) {
		t.Errorf("the second committed %v, want %v", late.Committed, want)
	}
	if why := late.Quarantined[l.ID]; !strings.Contains(why, "another lead of this id") {
		t.Errorf("the other lead is quarantined for %q", why)
	}
	for _, want := range []store.Lead{l, same, own} {
		if got := must(first.Lead(ctx, want.ID))(t); got != want {
			t.Errorf("kept %+v, want %+v", got, want)
		}
	}
	refused, _, err := first.QuarantinedLeads(ctx, store.Span{}, store.Page{Limit: 10})
	noError(t, err)
	var ids []string
	for _, q := range refused {
		ids = append(ids, q.LeadID)
	}
	if slices.Sort(ids); !slices.Equal(ids, []string{l.ID, unread.ID}) {
		t.Errorf("the quarantine has %v, want %s and %s", ids, l.ID, unread.ID)
	}
}

// TestLeadsAreReadWhileTheirTimesAreSet migrates a database with leads of before they had the
// time at which they came in: others read the leads while that is set.
func TestLeadsAreReadWhileTheirTimesAreSet(t *testing.T) {
	ctx, p := t.Context(), place{"postgres", centraltest.Postgres(t)}
	old := must(db.Open(ctx, db.Config{URL: p.url, Migrations: migrationsBefore(t, "0033")}))(t)
	defer func() { noError(t, old.Close()) }()
	earlier := p.another(t)
	const lock = `pg_advisory_xact_lock('leads'::regclass::oid::bigint)`
	for _, statement := range []string{
		`INSERT INTO accounts (id, name, mode, created_at) VALUES ('acc_1', 'A', 'setup', 1)`,
		`INSERT INTO leads (id, account_id, key_id, environment, first_name, last_name, email, phone,
			consent_status, consent_text, captured_at, outreach_allowed, created_at)
			VALUES ('lead_1', 'acc_1', '', 'live', '', '', '', '', 'none', '', 0, 0, 7)`,
		`CREATE FUNCTION set_late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM ` + lock + `; RETURN NEW; END $$`,
		`CREATE TRIGGER set_late BEFORE UPDATE ON leads FOR EACH ROW EXECUTE FUNCTION set_late()`,
	} {
		_, err := earlier.ExecContext(ctx, statement)
		noError(t, err)
	}
	// Until this ends, no time is set.
	holding := must(earlier.BeginTx(ctx, nil))(t)
	defer func() { _ = holding.Rollback() }()
	_, err := holding.ExecContext(ctx, `SELECT `+lock)
	noError(t, err)
	opened := make(chan error, 1)
	go func() {
		d, err := Open(ctx, Config{URL: p.url})
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	waitForLocks(t, &DB{db: old}, 1, opened)
	reader := must(earlier.BeginTx(ctx, nil))(t)
	_, err = reader.ExecContext(ctx, `LOCK TABLE leads IN ACCESS SHARE MODE NOWAIT`) // as a read does
	if err != nil {
		t.Errorf("leads cannot be read while their times are set: %v", err)
	}
	noError(t, reader.Rollback())
	noError(t, holding.Rollback())
	noError(t, <-opened)
	var received int64
	noError(t, earlier.QueryRowContext(ctx, `SELECT received_at FROM leads`).Scan(&received))
	if received != 7 {
		t.Errorf("the lead came in at %d, want 7", received)
	}
}
