package central

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/quarantine"
	"partneredge/store/grant"
	"partneredge/store/valid"
)

const leadColumns = `id, account_id, key_id, environment, first_name, last_name, email, phone,
	consent_status, consent_text, captured_at, outreach_allowed, created_at`

var leadTable = db.Table[store.Lead]{Noun: "lead", From: "leads", ID: "id", Columns: leadColumns, Scan: scanLead}

func scanLead(row db.Row) (l store.Lead, err error) {
	err = row.Scan(&l.ID, &l.AccountID, &l.KeyID, &l.Environment, &l.FirstName, &l.LastName, &l.Email, &l.Phone,
		&l.ConsentStatus, &l.ConsentText, db.Time(&l.CapturedAt), &l.OutreachAllowed, db.Time(&l.CreatedAt))
	return l, err
}

// OfferedLead is a lead that a node hands over.
type OfferedLead struct {
	store.AcceptedLead        // as far as it can be read
	Body               []byte // as it was received
	Unread             error  // why it cannot be read; nil: it can
	// Vouched is set for a lead that is not judged by its key: its node is from before
	// nodes kept the hashes of keys, or an operator releases it.
	Vouched bool
}

// ReadLead reads the JSON of a lead, whose id must be id unless that is "".
func ReadLead(id string, body []byte) OfferedLead {
	l := readLead(body)
	if id != "" && l.ID != id {
		l.ID, l.Unread = id, cmp.Or(l.Unread, valid.Errorf("the body has another id"))
	}
	return l
}

func readLead(body []byte) OfferedLead {
	l := OfferedLead{Body: body}
	if json.Unmarshal(body, &l.AcceptedLead) == nil {
		return l
	}
	l.AcceptedLead = store.AcceptedLead{}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		l.Unread = valid.Errorf("not a JSON object")
		return l
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if json.Unmarshal([]byte(db.JSONText(map[string]json.RawMessage{name: fields[name]})), &l.AcceptedLead) != nil {
			l.Unread = valid.Errorf("cannot read %.40s", name)
		}
	}
	return l
}

// Handover says what became of leads, by their ids.
type Handover struct {
	Committed   []string          // on disk, from this call or from an earlier one, or deleted since
	Quarantined map[string]string // refused, with why, and on disk in the quarantine
	Rejected    map[string]string // refused, with why, and not kept: the quarantine is full, or the clock was put back
	// Refusals counts the leads that were refused for their key.
	Refusals map[grant.Refusal]int
}

// AddLeads keeps leads that a node hands over. Those that can never be leads as
// they are, and those that their key does not grant or whose key cannot be read, go to the
// quarantine in the same transaction. err means that nothing is known: hand them over again.
func (d *DB) AddLeads(ctx context.Context, node string, leads []OfferedLead) (done Handover, err error) {
	if len(leads) == 0 {
		return Handover{}, nil
	}
	refused := make([]error, len(leads))
	var readable []OfferedLead
	for i, l := range leads {
		if refused[i] = cmp.Or(l.Unread, valid.Lead(l.Lead)); refused[i] == nil {
			readable = append(readable, l)
		}
	}
	spoke, err := d.spokeLast(ctx, node, readable)
	if err != nil {
		return Handover{}, err
	}
	err = d.change(ctx, "", func(ctx context.Context, t *tx) error {
		var bad []store.QuarantinedLead
		for all := false; !all; {
			rules, err := t.readLeadRules(ctx, readable)
			if err != nil {
				return err
			}
			rules.spoke = spoke
			gone, err := t.deletedBefore(ctx, leads) // after the leads that are kept: one may be deleted meanwhile
			if err != nil {
				return err
			}
			var fresh []store.Lead
			done, fresh, bad = rules.classify(node, leads, refused, gone)
			// Of a lead that another process has just kept, this one may have other content.
			if all, err = t.insertLeads(ctx, fresh); err != nil {
				return err
			}
		}
		full, err := quarantine.Add(ctx, t.Tx, bad)
		for _, i := range full {
			delete(done.Quarantined, bad[i].LeadID)
			done.Rejected[bad[i].LeadID] = "quarantine is full: " + bad[i].Reason
		}
		return err
	})
	if err != nil {
		return Handover{}, db.Fail("add leads", err)
	}
	return done, nil
}

// spokeLast returns when a node that hands over a lead from far ahead spoke last; zero where no
// lead is.
func (d *DB) spokeLast(ctx context.Context, node string, leads []OfferedLead) (at time.Time, err error) {
	far := d.Now().Add(grant.Wrong)
	if !slices.ContainsFunc(leads, func(l OfferedLead) bool { return l.CreatedAt.After(far) }) {
		return at, nil
	}
	seen, err := d.LastSeen(ctx, []string{node})
	return seen[node], err
}

// classify judges leads that a node hands over, unless refused says already why one cannot be
// kept. fresh are those to keep, and bad those for the quarantine. gone says which were
// deleted before, which count as committed.
func (r leadRules) classify(node string, leads []OfferedLead, refused []error, gone []bool) (done Handover, fresh []store.Lead, bad []store.QuarantinedLead) {
	done = Handover{Quarantined: make(map[string]string), Rejected: make(map[string]string), Refusals: make(map[grant.Refusal]int)}
	for i, l := range leads {
		if gone[i] {
			done.Committed = append(done.Committed, l.ID)
			continue
		}
		add, why := false, refused[i]
		if why == nil {
			add, why = r.judge(l)
		}
		if reason, refused := grant.ReasonOf(why); refused {
			done.Refusals[reason]++
		}
		if errors.Is(why, errClockBack) {
			done.Rejected[l.ID] = why.Error()
			continue
		}
		if why != nil {
			bad = append(bad, store.QuarantinedLead{
				LeadID: l.ID, AccountID: l.AccountID, KeyID: l.KeyID, NodeID: node, Reason: why.Error(), Body: l.Body,
			})
			done.Quarantined[l.ID] = why.Error()
			continue
		}
		if add {
			fresh = append(fresh, l.Lead)
		}
		done.Committed = append(done.Committed, l.ID)
	}
	return done, fresh, bad
}

// deletedBefore returns for each of some leads whether it was deleted, by its own id or that under
// which it was in the quarantine, or with its account. Its node need not offer it again.
func (t *tx) deletedBefore(ctx context.Context, leads []OfferedLead) ([]bool, error) {
	idsOf := make([][]string, len(leads))
	for i, l := range leads {
		for _, id := range []string{l.ID, l.AccountID, quarantine.IDOf(l.ID, l.AccountID, l.Body)} {
			if valid.Text(id) {
				idsOf[i] = append(idsOf[i], id)
			}
		}
	}
	buried, err := t.buried(ctx, slices.Concat(idsOf...))
	gone := make([]bool, len(leads))
	for i, ids := range idsOf {
		gone[i] = slices.ContainsFunc(ids, func(id string) bool { return buried[id] })
	}
	return gone, err
}

// leadRules holds what leads are judged by.
type leadRules struct {
	accounts map[string]bool       // that there are
	kept     map[string]store.Lead // by id
	keys     map[string]store.Key  // by id
	damaged  map[string]bool       // ids of keys whose rows cannot be read
	now      time.Time
	spoke    time.Time // when the node that hands over leads from far ahead spoke last
}

// readLeadRules reads what these leads are judged by.
func (t *tx) readLeadRules(ctx context.Context, leads []OfferedLead) (r leadRules, err error) {
	r = leadRules{
		kept: make(map[string]store.Lead),
		keys: make(map[string]store.Key), damaged: make(map[string]bool), now: t.Now(),
	}
	if len(leads) == 0 {
		return r, nil
	}
	ids, accounts, keys := make([]string, len(leads)), make([]string, len(leads)), make([]string, 0, len(leads))
	for i, l := range leads {
		ids[i], accounts[i] = l.ID, l.AccountID
		if !l.Vouched {
			keys = append(keys, l.KeyID)
		}
	}
	if r.accounts, err = db.Map[string, bool](ctx, t, `SELECT id, true FROM accounts WHERE `+t.In("id"), t.Set(accounts)); err != nil {
		return r, err
	}
	kept, err := leadTable.Some(ctx, t, t.In("id"), t.Set(ids))
	if err != nil {
		return r, err
	}
	for _, l := range kept {
		r.kept[l.ID] = l
	}
	return r, r.readKeys(ctx, t, keys)
}

// readKeys reads keys, by id. A damaged row concerns its own key alone.
func (r leadRules) readKeys(ctx context.Context, t *tx, ids []string) error {
	err := db.Each(ctx, t, func(row db.Row) error {
		var id string
		found := false
		k, err := scanFound(row, keyTable, &found, &id)
		switch {
		case err == nil:
			r.keys[id] = k
		case found && ctx.Err() == nil: // the end of ctx closes rows that are being scanned
			r.damaged[id], err = true, nil
		}
		return err
	}, `SELECT id, true, `+keyColumns+` FROM keys WHERE `+t.In("id"), t.Set(ids))
	return err
}

// judge reports whether a lead is to be added: not if it is there already. why is
// set when it cannot be added.
func (r leadRules) judge(l OfferedLead) (add bool, why error) {
	kept, found := r.kept[l.ID]
	switch {
	case found && kept.AccountID != l.AccountID:
		return false, fmt.Errorf("%w: the lead's id is another account's", store.ErrConflict)
	case found && !sameHandover(l.Lead, kept):
		return false, fmt.Errorf("%w: the account has another lead of this id", store.ErrConflict)
	case found:
		return false, nil
	case !r.accounts[l.AccountID]:
		return false, valid.Errorf("there is no account of the account id")
	}
	if why := r.judgeKey(l); why != nil {
		return false, why
	}
	r.kept[l.ID] = l.Lead
	return true, nil
}

var (
	errDamagedKey = errors.New("the row of the lead's key is damaged")
	// errClockBack is the error of a lead from the future as long as the clock is behind
	// where it was when the lead's node spoke last: time cures it, so the node keeps the lead.
	errClockBack = errors.New("the origin's clock was put back, or was ahead before")
)

func (r leadRules) judgeKey(l OfferedLead) error {
	if l.Vouched {
		return nil
	}
	if r.damaged[l.KeyID] {
		return errDamagedKey
	}
	key, known := r.keys[l.KeyID]
	if !known && len(l.KeyHash) > 0 {
		return grant.UnknownKey
	}
	judge := func(now time.Time) error {
		return grant.JudgeLead(key, grant.Claim{
			KeyHash: l.KeyHash, KeyID: l.KeyID, AccountID: l.AccountID, Environment: l.Environment, Scope: store.ScopeWriteLeads,
		}, db.TimeOr(l.CreatedAt, r.now), now)
	}
	why := judge(r.now)
	if errors.Is(why, grant.WrongTime) && r.spoke.After(r.now) && !errors.Is(judge(r.spoke), grant.WrongTime) {
		return errClockBack
	}
	return why
}

// sameHandover reports whether a lead is the one that is kept, sent once more: with an
// idempotency key, at another time or to another node. Whether outreach is allowed follows
// from the consent, which is compared, and from when the node accepted the lead.
func sameHandover(l, kept store.Lead) bool {
	l.CreatedAt, l.OutreachAllowed = kept.CreatedAt, kept.OutreachAllowed
	l.CapturedAt, kept.CapturedAt = db.TimeOr(l.CapturedAt, time.Time{}), db.TimeOr(kept.CapturedAt, time.Time{})
	return l == kept
}

// insertLeads leaves alone a lead that another process has just kept. It reports whether
// there was none.
func (t *tx) insertLeads(ctx context.Context, leads []store.Lead) (all bool, err error) {
	inserted := int64(0)
	for _, l := range leads {
		created := db.TimeOr(l.CreatedAt, t.Now())
		n, err := t.Exec(ctx, `INSERT INTO leads (`+leadColumns+`, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO NOTHING`,
			l.ID, l.AccountID, l.KeyID, string(l.Environment), l.FirstName, l.LastName, l.Email, l.Phone,
			l.ConsentStatus, l.ConsentText, store.Micros(l.CapturedAt), db.Bit(l.OutreachAllowed), store.Micros(created), store.Micros(t.Now()))
		if err != nil {
			return false, err
		}
		inserted += n
	}
	return inserted == int64(len(leads)), nil
}

// Leads lists the leads of an account, the last handed over first.
func (d *DB) Leads(ctx context.Context, accountID string, p store.Page) ([]store.Lead, string, error) {
	return listOf(ctx, d, leadTable, accountID, p)
}

// Lead reads one lead.
func (d *DB) Lead(ctx context.Context, id string) (store.Lead, error) {
	return leadTable.Read(ctx, d.db, id)
}

// QuarantinedLeads lists the leads that wait in the quarantine and came in within a
// span, newest first.
func (d *DB) QuarantinedLeads(ctx context.Context, s store.Span, p store.Page) ([]store.QuarantinedLead, string, error) {
	if err := valid.Times(s.Since, s.Until); err != nil {
		return nil, "", db.Fail("list quarantined leads", err)
	}
	items, next, err := quarantine.List(ctx, d.db, s, p)
	return items, next, db.Fail("list quarantined leads", err)
}

// QuarantinedLead reads one lead of the quarantine with its body.
func (d *DB) QuarantinedLead(ctx context.Context, id string) (store.QuarantinedLead, error) {
	q, err := quarantine.Read(ctx, d.db, id)
	return q, db.Fail("read quarantined lead", err)
}

// CountQuarantined returns how many leads wait in the quarantine.
func (d *DB) CountQuarantined(ctx context.Context) (int, error) {
	n, err := quarantine.Count(ctx, d.db)
	return n, db.Fail("count quarantined leads", err)
}

// ReleaseLead keeps what a lead of the quarantine was mended to, as if a node had
// handed it over, and ends its wait. ErrConflict when it waits no more, when the
// account has another lead of its id, or when the lead or its account was deleted.
func (d *DB) ReleaseLead(ctx context.Context, id string, l store.Lead) (store.QuarantinedLead, error) {
	return d.settle(ctx, id, &l, valid.Lead(l), func(ctx context.Context, t *tx) error {
		released := OfferedLead{AcceptedLead: store.AcceptedLead{Lead: l}, Vouched: true}
		rules, err := t.readLeadRules(ctx, []OfferedLead{released})
		if err != nil {
			return err
		}
		if _, err := rules.judge(released); err != nil {
			return err
		}
		if _, err := t.insertLeads(ctx, []store.Lead{l}); err != nil {
			return err
		}
		kept, err := leadTable.Get(ctx, t, l.ID)
		if err == nil && !sameRelease(l, kept) {
			err = fmt.Errorf("%w: there is another lead of this id already", store.ErrConflict)
		}
		return err
	})
}

// mayReturn returns ErrConflict when one of some ids is that of a deleted lead or account.
func (t *tx) mayReturn(ctx context.Context, ids ...string) error {
	gone, err := t.buried(ctx, ids)
	for id := range gone {
		return fmt.Errorf("%w: %s was deleted, discard the lead instead", store.ErrConflict, id)
	}
	return err
}

// sameRelease reports whether a lead is the one that is kept. It is stricter than
// sameHandover: a time of creation that an operator has given must be that of the lead kept.
func sameRelease(l, kept store.Lead) bool {
	l.CapturedAt = db.TimeOr(l.CapturedAt, time.Time{})
	l.CreatedAt = db.TimeOr(l.CreatedAt, kept.CreatedAt)
	return l == kept
}

// DiscardLead gives a lead of the quarantine up. ErrConflict when it waits no more.
func (d *DB) DiscardLead(ctx context.Context, id string) (store.QuarantinedLead, error) {
	return d.settle(ctx, id, nil, nil, func(context.Context, *tx) error { return nil })
}

// settle ends the wait of a lead in one transaction with fn. released is what it
// was mended to, nil when it is discarded.
func (d *DB) settle(ctx context.Context, id string, released *store.Lead, refused error, fn work) (q store.QuarantinedLead, err error) {
	action := "lead.discard"
	if released != nil {
		action = "lead.release"
	}
	err = d.write(ctx, action, cmp.Or(valid.Reference("quarantined lead", id), refused), func(ctx context.Context, t *tx) error {
		before, err := quarantine.Read(ctx, t, id)
		if err != nil {
			return err
		}
		if released != nil { // before the row is held, as those who delete do
			if err := t.mayReturn(ctx, id, before.LeadID, before.AccountID, released.ID, released.AccountID); err != nil {
				return err
			}
		}
		if err := quarantine.Settle(ctx, t.Tx, id, released); err != nil {
			return err
		}
		if err := fn(ctx, t); err != nil {
			return err
		}
		if q, err = quarantine.Read(ctx, t, id); err != nil {
			return err
		}
		if released == nil {
			return t.audited(ctx, audit.Entry{Action: action, Target: id, Before: before, After: q})
		}
		return t.audited(ctx, audit.Entry{Action: action, Target: id, Before: before, After: auditRelease(ReadLead(before.LeadID, before.Body).Lead, *released)})
	})
	return written(q, err)
}

// auditRelease returns a released lead as the log shows it: without what is known
// of a person.
func auditRelease(received, released store.Lead) any {
	return struct {
		State           store.QuarantineState `json:"state"`
		LeadID          string                `json:"lead_id"`
		AccountID       string                `json:"account_id"`
		Changed         []string              `json:"changed"` // fields that are not as they were received
		ConsentStatus   string                `json:"consent_status"`
		OutreachAllowed bool                  `json:"outreach_allowed"`
	}{
		store.QuarantineReleased, released.ID, released.AccountID, changedFields(received, released),
		released.ConsentStatus, released.OutreachAllowed,
	}
}

// changedFields returns the names of the fields, as in JSON, that differ.
func changedFields(a, b store.Lead) []string {
	fields := func(l store.Lead) (values map[string]any) {
		_ = json.Unmarshal([]byte(db.JSONText(l)), &values) // what has just been marshalled
		return values
	}
	before, after := fields(a), fields(b)
	names := maps.Clone(before)
	maps.Copy(names, after)
	maps.DeleteFunc(names, func(name string, _ any) bool { return before[name] == after[name] })
	return append([]string{}, slices.Sorted(maps.Keys(names))...) // never null
}
