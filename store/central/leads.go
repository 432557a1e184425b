package central

import (
	"context"
	"errors"
	"fmt"

	"partneredge/store"
)

const leadColumns = `id, account_id, key_id, environment, first_name, last_name, email, phone,
	consent_status, consent_text, captured_at, outreach_allowed, created_at`

func scanLead(row scanner) (l store.Lead, err error) {
	err = row.Scan(&l.ID, &l.AccountID, &l.KeyID, &l.Environment, &l.FirstName, &l.LastName, &l.Email, &l.Phone,
		&l.ConsentStatus, &l.ConsentText, asTime(&l.CapturedAt), &l.OutreachAllowed, asTime(&l.CreatedAt))
	return l, err
}

func checkLead(l store.Lead) error {
	if l.Environment != store.Live {
		return invalid("leads of test keys are not kept")
	}
	return errors.Join(checkIDs(field{"lead id", l.ID}, field{"account id", l.AccountID}),
		checkTexts(field{"key id", l.KeyID}, field{"first name", l.FirstName}, field{"last name", l.LastName},
			field{"email", l.Email}, field{"phone", l.Phone}, field{"consent text", l.ConsentText}),
		checkOneOf("consent status", l.ConsentStatus, "express_written", "inbound_initiated", "none"),
		checkTimes(l.CapturedAt, l.CreatedAt))
}

// AddLeads keeps leads that nodes hand over. committed names those that are now
// on disk, whether from this call or from an earlier one; rejected those that
// can never be taken, with why. err means that nothing is known: hand them over
// again.
func (db *DB) AddLeads(ctx context.Context, leads []store.Lead) (committed []string, rejected map[string]string, err error) {
	const tried = "add leads"
	refused := make(map[string]string)
	var good []store.Lead
	for _, l := range leads {
		if err := checkLead(l); err != nil {
			refused[l.ID] = err.Error()
			continue
		}
		l.CreatedAt = timeOr(l.CreatedAt, db.now())
		good = append(good, l)
	}
	if len(good) == 0 {
		return []string{}, refused, nil
	}
	err = db.change(ctx, "", func(ctx context.Context, t *tx) error {
		committed, rejected = make([]string, 0, len(good)), make(map[string]string, len(refused))
		for id, why := range refused {
			rejected[id] = why
		}
		owners, err := t.ownersOf(ctx, good)
		if err != nil {
			return err
		}
		var fresh []store.Lead
		for _, l := range good {
			switch owner, kept := owners.lead[l.ID]; {
			case kept && owner != l.AccountID:
				rejected[l.ID] = fmt.Sprintf("%s: the id is another account's", store.ErrConflict)
			case kept:
				committed = append(committed, l.ID)
			case !owners.known[l.AccountID]:
				rejected[l.ID] = fmt.Sprintf("%s: account", store.ErrNotFound)
			default:
				owners.lead[l.ID] = l.AccountID
				fresh = append(fresh, l)
				committed = append(committed, l.ID)
			}
		}
		return t.insertLeads(ctx, fresh)
	})
	if err != nil {
		return nil, nil, db.fail(tried, err)
	}
	return committed, rejected, nil
}

// owners are the accounts that leads name, and those that have leads of these
// ids already.
type owners struct {
	known map[string]bool
	lead  map[string]string
}

func (t *tx) ownersOf(ctx context.Context, leads []store.Lead) (o owners, err error) {
	o = owners{make(map[string]bool), make(map[string]string)}
	ids, accounts := make([]string, len(leads)), make([]string, len(leads))
	for i, l := range leads {
		ids[i], accounts[i] = l.ID, l.AccountID
	}
	known, err := t.strings(ctx, `SELECT id FROM accounts WHERE `+t.db.in("id"), t.db.set(accounts))
	if err != nil {
		return o, err
	}
	for _, id := range known {
		o.known[id] = true
	}
	rows, err := t.query(ctx, `SELECT id, account_id FROM leads WHERE `+t.db.in("id"), t.db.set(ids))
	if err != nil {
		return o, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id, account string
		if err := rows.Scan(&id, &account); err != nil {
			return o, err
		}
		o.lead[id] = account
	}
	return o, rows.Err()
}

// insertLeads leaves alone a lead that another process has just kept.
func (t *tx) insertLeads(ctx context.Context, leads []store.Lead) error {
	for _, l := range leads {
		if _, err := t.exec(ctx, `INSERT INTO leads (`+leadColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO NOTHING`,
			l.ID, l.AccountID, l.KeyID, string(l.Environment), l.FirstName, l.LastName, l.Email, l.Phone,
			l.ConsentStatus, l.ConsentText, micros(l.CapturedAt), bit(l.OutreachAllowed), micros(l.CreatedAt)); err != nil {
			return err
		}
	}
	return nil
}

// Leads lists the leads of an account, the last handed over first.
func (db *DB) Leads(ctx context.Context, accountID string, p store.Page) ([]store.Lead, string, error) {
	if err := mustBeText("account", accountID); err != nil {
		return nil, "", db.fail("list leads", err)
	}
	l := listing[store.Lead]{table: "leads", columns: leadColumns, account: accountID, scan: scanLead}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail("list leads", err)
}
