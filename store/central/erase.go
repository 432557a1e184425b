package central

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/central/idempotency"
	"partneredge/store/central/quarantine"
	"partneredge/store/valid"
)

// eraseSlice bounds the rows that one statement of an erasure removes, so that other
// writes get their turn.
const eraseSlice = 1000

// DeleteLead removes a lead, what the quarantine has of it, and the contacts with the
// person, which have the lead's id as that of the client. A lead that only the
// quarantine has is returned as far as it can be read, and one of which there are only
// contacts with its id and account. A tombstone keeps it from coming back from a node or
// the quarantine, and so does one for each refused lead that was released as it. One that
// nothing is kept of is ErrNotFound, but has its tombstone all the same: a node may still hold
// it. The audit log says which lead went, and nothing of the person.
func (d *DB) DeleteLead(ctx context.Context, id string) (deleted store.Lead, err error) {
	const op = "delete lead"
	kept := true
	err = d.write(ctx, op, valid.Reference("lead", id), func(ctx context.Context, t *tx) (err error) {
		deleted, err = t.removeLead(ctx, id, t.Now())
		if kept = !errors.Is(err, sql.ErrNoRows); kept || !isLead(id) {
			return err
		}
		return t.buriedNothing(ctx, "lead.delete", id)
	})
	if err == nil {
		d.emptyLog(ctx)
		if !kept {
			err = db.Fail(op, sql.ErrNoRows)
		}
	}
	return written(deleted, err)
}

// buriedNothing notes that an id was buried of which nothing is kept: nothing that a node may
// still hold of it is taken.
func (t *tx) buriedNothing(ctx context.Context, action, id string) error {
	return t.audited(ctx, audit.Entry{Action: action, Target: id, After: map[string]any{"kept": false}})
}

// removeLead is DeleteLead in a transaction, with the time of the tombstone. It buries
// the id even if nothing is kept of it, which is sql.ErrNoRows.
func (t *tx) removeLead(ctx context.Context, id string, at time.Time) (removed store.Lead, err error) {
	if err := t.bury(ctx, id, at); err != nil {
		return removed, err
	}
	// The quarantine first: a release that is under way is waited for, and what it has
	// kept is found among the leads.
	refused, err := quarantine.Remove(ctx, t.Tx, id)
	if err != nil {
		return removed, err
	}
	released, err := t.buryReleased(ctx, id, at)
	if err != nil {
		return removed, err
	}
	removed, err = leadTable.Get(ctx, t, id)
	missing := errors.Is(err, sql.ErrNoRows)
	if err != nil && !missing {
		return removed, err
	}
	if missing && len(refused) > 0 {
		removed = ReadLead(id, refused[0].Body).Lead
		removed.ID, removed.AccountID, removed.KeyID = id, refused[0].AccountID, refused[0].KeyID
	}
	contacts, err := t.removeContacts(ctx, id, removed.AccountID)
	switch {
	case err != nil:
		return removed, err
	case missing && len(refused)+len(contacts)+released == 0:
		return removed, sql.ErrNoRows
	case missing && len(refused) == 0:
		removed.ID = id
		if len(contacts) > 0 {
			removed.AccountID = contacts[0]
		}
	}
	if _, err := t.Exec(ctx, `DELETE FROM leads WHERE id = ?`, id); err != nil {
		return removed, err
	}
	return removed, t.audited(ctx, audit.Entry{Action: "lead.delete", Target: id, After: map[string]any{
		"account_id": removed.AccountID, "contacts": len(contacts), "quarantined": len(refused) + released,
	}})
}

// buryReleased buries what the quarantine released as a lead, or to an account, and returns how
// much: it came from its node under another id, under which the person would come back.
func (t *tx) buryReleased(ctx context.Context, id string, at time.Time) (int, error) {
	ids, err := quarantine.RemoveReleased(ctx, t.Tx, id)
	if err != nil {
		return 0, err
	}
	for _, refused := range ids {
		if err := t.bury(ctx, refused, at); err != nil {
			return 0, err
		}
	}
	return len(ids), nil
}

// isLead reports whether an id can be a lead's alone.
func isLead(id string) bool { return strings.HasPrefix(id, "lead_") }

const contactsOfClient = `client_id = ?`

// removeContacts removes the contacts with the person of a lead and returns the account of
// each. The lead may have gone before, by its age. Where an id can be another client's as
// well, those of the lead's account go alone. What was answered to those who added them goes
// too: a repetition would confirm a contact that is gone.
func (t *tx) removeContacts(ctx context.Context, lead, account string) (accounts []string, err error) {
	where, args := contactsOfClient, []any{lead}
	if !isLead(lead) {
		where, args = where+` AND account_id = ?`, append(args, account)
	}
	accounts, err = t.Strings(ctx, `DELETE FROM contacts WHERE `+where+` RETURNING account_id`, args...)
	if err != nil {
		return nil, err
	}
	answered := append(slices.Clone(accounts), account) // whose contacts may have gone by their age
	return accounts, idempotency.Forget(ctx, t.Tx, contactNoun, answered, "client_id", lead)
}

// Erased counts what EraseAccount has removed, by table.
type Erased map[string]int64

// records are an account's rows of a table.
type records struct {
	table, id    string // id is the column that tells them apart
	where        string // the condition that finds those of an account
	with, withID string // a table whose rows go with them, and its column with their ids; "": none
}

// ofAccount lists the records of an account. What names others comes before them. The
// last two go with the account itself: a key that is made until then has to end at
// every node.
var ofAccount = [...]records{
	{"deliveries", "id", `subscription_id IN (SELECT id FROM subscriptions WHERE account_id = ?)`, "attempts", "delivery_id"},
	{"events", "id", `account_id = ?`, "", ""},
	{"leads", "id", `account_id = ?`, "", ""},
	{"quarantine", "id", `account_id = ?`, "", ""},
	{"contacts", "id", `account_id = ?`, "", ""},
	{"insights", "id", `account_id = ?`, "", ""},
	{"firings", "id", `account_id = ?`, "", ""},
	{"deals", "id", `account_id = ?`, "", ""},
	{"goals", "id", `account_id = ?`, "", ""},
	{"idempotency", "name", `account_id = ?`, "", ""},
	{"subscriptions", "id", `account_id = ?`, "", ""},
	{"key_usage", "key_id", `key_id IN (SELECT id FROM keys WHERE account_id = ?)`, "", ""},
	{"keys", "id", `account_id = ?`, "key_usage", "key_id"}, // and what was reported meanwhile
	{"agents", "id", `account_id = ?`, "", ""},
}

// EraseAccount removes an account and all that is kept of it, but for the audit log.
// Its keys and subscriptions end first, at every node; its records go in slices, and
// the account last, so that what is cut short can be done again.
func (d *DB) EraseAccount(ctx context.Context, id string) (Erased, error) {
	erased, err := d.eraseAccount(ctx, id, time.Time{})
	if err == nil {
		d.emptyLog(ctx)
	}
	return erased, err
}

// eraseAccount is EraseAccount for a caller that empties the log, with the time of the
// tombstone. A time that is not set is that of the account's own end.
func (d *DB) eraseAccount(ctx context.Context, id string, at time.Time) (Erased, error) {
	if _, err := d.Account(ctx, id); err != nil {
		return nil, err
	}
	if err := d.endAccount(ctx, id); err != nil {
		return nil, db.Fail(opErase, err)
	}
	erased, err := d.eraseRecords(ctx, id)
	if err != nil {
		return nil, db.Fail(opErase, err)
	}
	return d.eraseRest(ctx, id, at, erased)
}

// EmptyLog takes what was removed out of SQLite's log, in which it can be read until other
// writes take its place. It is ErrUnavailable while somebody reads from the log: try again.
func (d *DB) EmptyLog(ctx context.Context) error { return d.db.EmptyLog(ctx) }

// emptyLog is EmptyLog after an erasure, which is done whether or not the log is in use:
// retention tries again.
func (d *DB) emptyLog(ctx context.Context) {
	if err := d.EmptyLog(ctx); err != nil {
		d.log.Info("what was erased stays in the database's log for now", "err", err)
	}
}

const opErase = "erase account"

// eraseRecords removes what an account has, in slices.
func (d *DB) eraseRecords(ctx context.Context, id string) (Erased, error) {
	erased := make(Erased)
	const withAccount = 2
	return erased, erased.each(ofAccount[:len(ofAccount)-withAccount], func(of records) (gone int64, err error) {
		err = d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) (err error) {
			gone, err = of.eraseSome(ctx, t, id)
			return err
		})
		return gone, err
	})
}

// each calls some for each kind of records until none is left of it, and counts what went.
func (e Erased) each(kinds []records, some func(records) (int64, error)) error {
	for _, of := range kinds {
		for more := true; more; {
			gone, err := some(of)
			if err != nil {
				return err
			}
			e[of.table] += gone
			more = gone > 0
		}
	}
	return nil
}

// eraseRest removes an account with what came in since its records were erased.
func (d *DB) eraseRest(ctx context.Context, id string, at time.Time, erased Erased) (all Erased, err error) {
	err = d.writeTo(ctx, opErase, id, nil, func(ctx context.Context, t *tx) error {
		all = maps.Clone(erased) // this may be done again
		at := db.TimeOr(at, t.Now())
		if err := t.bury(ctx, id, at); err != nil {
			return err
		}
		if _, err := t.buryReleased(ctx, id, at); err != nil {
			return err
		}
		made, err := t.Strings(ctx, `SELECT id FROM keys WHERE account_id = ? AND revoked_at = 0`, id)
		if err != nil {
			return err
		}
		for _, key := range made { // since the others ended
			t.changed(store.ChangeKey, key, true)
		}
		if err := t.eraseAll(ctx, id, all); err != nil { // what came in meanwhile
			return err
		}
		if _, err := t.Exec(ctx, `DELETE FROM accounts WHERE id = ?`, id); err != nil {
			return err
		}
		for _, kind := range []store.ChangeKind{store.ChangeProfile, store.ChangeInsights, store.ChangeFirings} {
			t.changed(kind, id, true)
		}
		if err := t.audited(ctx, audit.Entry{Action: "account.delete", Target: id, After: all}); err != nil {
			return err
		}
		t.dropEvents(id)
		return nil
	})
	return all, err
}

// eraseAll removes all records of an account and adds to erased how many went.
func (t *tx) eraseAll(ctx context.Context, id string, erased Erased) error {
	return erased.each(ofAccount[:], func(of records) (int64, error) { return of.eraseSome(ctx, t.Tx, id) })
}

// eraseOrphans removes what is kept of an account that is not there: not every table refers
// to accounts, and a node's leads are in the quarantine whether or not theirs is known.
func (t *tx) eraseOrphans(ctx context.Context, id string) error {
	erased := make(Erased)
	if err := t.eraseAll(ctx, id, erased); err != nil {
		return err
	}
	maps.DeleteFunc(erased, func(_ string, gone int64) bool { return gone == 0 })
	if len(erased) == 0 {
		return t.buriedNothing(ctx, "account.delete", id)
	}
	return t.audited(ctx, audit.Entry{Action: "account.delete", Target: id, After: erased})
}

// dropEvents gives up what others in the same transaction have made of an account
// whose records are gone. It is the last that a job does, since it cannot be undone.
func (t *tx) dropEvents(account string) {
	t.events = slices.DeleteFunc(t.events, func(e *store.Event) bool { return e.AccountID == account })
	t.firings = slices.DeleteFunc(t.firings, func(f store.Firing) bool { return f.AccountID == account })
}

// eraseSome removes some of an account's records and returns how many. Those whose rows
// go with them are locked first, so that none comes in between.
func (r records) eraseSome(ctx context.Context, t *db.Tx, account string) (int64, error) {
	if r.table == "key_usage" { // a key has any number of rows
		return t.Exec(ctx, `DELETE FROM key_usage WHERE (key_id, day, node_id, boot) IN (
			SELECT key_id, day, node_id, boot FROM key_usage WHERE `+r.where+` LIMIT ?)`, account, eraseSlice)
	}
	some := `SELECT ` + r.id + ` FROM ` + r.table + ` WHERE ` + r.where + ` LIMIT ?`
	if r.with != "" {
		some = t.ForDelete(some)
	}
	found, err := t.Strings(ctx, some, account, eraseSlice)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	if r.with != "" {
		if _, err := t.Exec(ctx, `DELETE FROM `+r.with+` WHERE `+t.In(r.withID), t.Set(found)); err != nil {
			return 0, err
		}
	}
	if r.table == "events" { // whose deliveries may have gone by their age, before their attempts
		if err := deliveries.RemoveOrphans(ctx, t, found); err != nil {
			return 0, err
		}
	}
	return t.Exec(ctx, `DELETE FROM `+r.table+` WHERE `+r.where+` AND `+t.In(r.id), account, t.Set(found))
}

// endAccount revokes an account's keys and subscriptions, and sets it to setup, which
// cancels its deliveries. The audit log, which outlives the account, gets neither the names
// in these records nor their addresses.
func (d *DB) endAccount(ctx context.Context, id string) error {
	if err := eachOf(ctx, id, d.Keys, func(k store.Key) error {
		return d.endKey(ctx, k.ID)
	}); err != nil {
		return err
	}
	if err := eachOf(ctx, id, d.Subscriptions, func(s store.Subscription) error {
		_, err := d.RevokeSubscription(ctx, id, s.ID)
		if errors.Is(err, store.ErrNotFound) { // it was revoked long ago, and has gone meanwhile
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	return d.endMode(ctx, id)
}

// endKey is RevokeKey, but for what the audit log shows.
func (d *DB) endKey(ctx context.Context, id string) error {
	return d.changeKey(ctx, id, func(ctx context.Context, t *tx, k store.Key) error {
		if !k.RevokedAt.IsZero() {
			return nil
		}
		revoked, err := t.revokeKey(ctx, k)
		if err != nil {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "key.revoke", Target: id, After: ended{revoked.RevokedAt}})
	})
}

// inMode is the mode of an erased account as the audit log shows it.
type inMode struct {
	Mode store.Mode `json:"activation_mode"`
}

// endMode sets an account to setup.
func (d *DB) endMode(ctx context.Context, id string) error {
	changed := false // by any run: the commit of one that failed may have gone through
	err := d.change(ctx, id, func(ctx context.Context, t *tx) error {
		was := t.modes[id]
		if was == store.ModeSetup {
			return nil
		}
		changed = true
		if _, err := t.Exec(ctx, `UPDATE accounts SET mode = ? WHERE id = ?`, string(store.ModeSetup), id); err != nil {
			return err
		}
		t.setMode(id, store.ModeSetup)
		t.changed(store.ChangeProfile, id, false)
		return t.audited(ctx, audit.Entry{Action: "account.update", Target: id, Before: inMode{was}, After: inMode{store.ModeSetup}})
	})
	if changed { // whatever err says
		d.EndpointsChanged()
	}
	return err
}

// eachOf calls fn with every record of an account.
func eachOf[T any](ctx context.Context, account string, list func(context.Context, string, store.Page) ([]T, string, error), fn func(T) error) error {
	for page := (store.Page{Limit: 200}); ; {
		items, next, err := list(ctx, account, page)
		if err != nil {
			return err
		}
		for _, item := range items {
			if err := fn(item); err != nil {
				return err
			}
		}
		if page.Cursor = next; next == "" {
			return nil
		}
	}
}

var tombstoneTable = db.Table[store.Tombstone]{Noun: "tombstone", From: "tombstones", ID: "id", Columns: `id, deleted_at`, Scan: scanTombstone}

func scanTombstone(row db.Row) (s store.Tombstone, err error) {
	err = row.Scan(&s.ID, db.Time(&s.DeletedAt))
	return s, err
}

// bury keeps a lead or an account that is deleted from coming back. Whoever adds leads, or
// contacts with them, asks buried first, and is waited for, or waits and finds it: bury comes
// before what is deleted.
func (t *tx) bury(ctx context.Context, id string, at time.Time) error {
	if err := t.Tx.Lock(ctx, "tombstones"); err != nil {
		return err
	}
	_, err := t.Exec(ctx, `INSERT INTO tombstones (id, deleted_at) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`, id, store.Micros(at))
	return err
}

// buried returns which of some ids are those of deleted leads or accounts. None of the others
// is deleted before the transaction ends.
func (t *tx) buried(ctx context.Context, ids []string) (map[string]bool, error) {
	if err := t.LockShared(ctx, "tombstones"); err != nil {
		return nil, err
	}
	return db.Map[string, bool](ctx, t, `SELECT id, true FROM tombstones WHERE `+t.In("id"), t.Set(ids))
}

// Tombstones lists the leads and accounts that were deleted, the last first.
func (d *DB) Tombstones(ctx context.Context, p store.Page) ([]store.Tombstone, string, error) {
	return tombstoneTable.List(ctx, d.db, p)
}

// Bury deletes a lead or an account again, where a backup or a node has brought it
// back, and keeps it from coming back. Leads may have any id, so what is no account's is a
// lead's, or that of a lead in the quarantine. A time that is not set is now; an id that does
// not begin with lead_ and of which nothing is kept is then ErrInvalid, as a typing error. The
// same again is nil.
func (d *DB) Bury(ctx context.Context, s store.Tombstone) (store.Tombstone, error) {
	certain := !s.DeletedAt.IsZero() || isLead(s.ID)
	s.DeletedAt = db.TimeOr(s.DeletedAt, d.db.Now())
	refused := errors.Join(valid.IDs("id", s.ID), valid.Times(s.DeletedAt))
	remove := func(ctx context.Context, t *tx) error { return t.buryLead(ctx, s, certain) }
	if refused == nil && strings.HasPrefix(s.ID, "acc_") {
		_, err := d.eraseAccount(ctx, s.ID, s.DeletedAt)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return store.Tombstone{}, db.Fail("bury", err)
		}
		none := err != nil
		remove = func(ctx context.Context, t *tx) error {
			if err := t.bury(ctx, s.ID, s.DeletedAt); err != nil || !none {
				return err
			}
			return t.eraseOrphans(ctx, s.ID)
		}
	}
	err := d.write(ctx, "bury", refused, func(ctx context.Context, t *tx) error {
		if err := remove(ctx, t); err != nil {
			return err
		}
		var err error
		s, err = tombstoneTable.Get(ctx, t, s.ID)
		return err
	})
	if err == nil {
		d.emptyLog(ctx)
	}
	return written(s, err)
}

// buryLead is Bury for a lead. Where nothing is kept of it, not even a tombstone, it is buried
// if it is certain that there was such a lead.
func (t *tx) buryLead(ctx context.Context, s store.Tombstone, certain bool) error {
	if _, err := tombstoneTable.Get(ctx, t, s.ID); err == nil {
		certain = true
	} else if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	_, err := t.removeLead(ctx, s.ID, s.DeletedAt)
	switch {
	case !errors.Is(err, sql.ErrNoRows):
		return err
	case !certain:
		return valid.Errorf("nothing is kept under this id: give the time of its deletion if there was such a lead")
	}
	return t.buriedNothing(ctx, "lead.delete", s.ID)
}
