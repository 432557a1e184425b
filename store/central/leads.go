package central

import (
	"context"
	"fmt"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const leadColumns = `id, account_id, key_id, environment, first_name, last_name, email, phone,
	consent_status, consent_text, captured_at, outreach_allowed, created_at`

var leadTable = table[store.Lead]{noun: "lead", from: "leads", id: "id", columns: leadColumns, scan: scanLead}

func scanLead(row db.Row) (l store.Lead, err error) {
	err = row.Scan(&l.ID, &l.AccountID, &l.KeyID, &l.Environment, &l.FirstName, &l.LastName, &l.Email, &l.Phone,
		&l.ConsentStatus, &l.ConsentText, db.Time(&l.CapturedAt), &l.OutreachAllowed, db.Time(&l.CreatedAt))
	return l, err
}

// AddLeads keeps leads that nodes hand over. committed names those that are now
// on disk, whether from this call or from an earlier one; rejected those that
// can never be kept, with why. err means that nothing is known: hand them over
// again.
func (d *DB) AddLeads(ctx context.Context, leads []store.Lead) (committed []string, rejected map[string]string, err error) {
	const tried = "add leads"
	refused := make(map[string]string)
	var good []store.Lead
	for _, l := range leads {
		if err := valid.Lead(l); err != nil {
			refused[l.ID] = err.Error()
			continue
		}
		l.CreatedAt = db.TimeOr(l.CreatedAt, d.db.Now())
		good = append(good, l)
	}
	if len(good) == 0 {
		return []string{}, refused, nil
	}
	err = d.change(ctx, "", func(ctx context.Context, t *tx) error {
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
		return nil, nil, db.Fail(tried, err)
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
	known, err := t.Strings(ctx, `SELECT id FROM accounts WHERE `+t.In("id"), t.Set(accounts))
	if err != nil {
		return o, err
	}
	for _, id := range known {
		o.known[id] = true
	}
	o.lead, err = db.Map[string, string](ctx, t, `SELECT id, account_id FROM leads WHERE `+t.In("id"), t.Set(ids))
	return o, err
}

// insertLeads leaves alone a lead that another process has just kept.
func (t *tx) insertLeads(ctx context.Context, leads []store.Lead) error {
	for _, l := range leads {
		if _, err := t.Exec(ctx, `INSERT INTO leads (`+leadColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO NOTHING`,
			l.ID, l.AccountID, l.KeyID, string(l.Environment), l.FirstName, l.LastName, l.Email, l.Phone,
			l.ConsentStatus, l.ConsentText, db.Micros(l.CapturedAt), db.Bit(l.OutreachAllowed), db.Micros(l.CreatedAt)); err != nil {
			return err
		}
	}
	return nil
}

// Leads lists the leads of an account, the last handed over first.
func (d *DB) Leads(ctx context.Context, accountID string, p store.Page) ([]store.Lead, string, error) {
	return leadTable.listOf(ctx, d, accountID, p)
}
