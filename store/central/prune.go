package central

import (
	"context"
	"slices"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

// Aging is a kind of records that can go by their age. Their ids sort by the time
// they came in.
type Aging struct {
	table, prefix string
	view          store.ChangeKind // what nodes keep of them; "": nothing
}

// What PruneRecords removes.
var (
	AgingFirings  = Aging{"firings", "fir", store.ChangeFirings}
	AgingInsights = Aging{"insights", "ins", store.ChangeInsights}
	AgingContacts = Aging{"contacts", "con", ""}
	AgingLeads    = Aging{"leads", "lead", ""}
	AgingAudit    = Aging{"audit", "aud", ""}
)

// PruneRecords removes up to limit records that came in before a time and returns how
// many, the oldest first; call it until that is 0. Nodes that keep some of them learn
// of it.
func (d *DB) PruneRecords(ctx context.Context, k Aging, before time.Time, limit int) (removed int, err error) {
	tried := "prune " + k.table
	if k.table == "" || limit <= 0 || before.IsZero() || valid.Times(before) != nil {
		return 0, db.Fail(tried, valid.Errorf("kind, time or limit is not set"))
	}
	if k.view == "" {
		err := d.db.WriteAlone(ctx, func(ctx context.Context, t *db.Tx) (err error) {
			removed, err = pruneAlone(ctx, t, k, before, limit)
			return err
		})
		return removed, db.Fail(tried, err)
	}
	err = d.write(ctx, tried, nil, func(ctx context.Context, t *tx) error {
		accounts, err := t.Strings(ctx, `DELETE FROM `+k.table+` WHERE id IN (`+oldest(k)+`) RETURNING account_id`,
			k.prefix, db.FirstID(k.prefix, before), limit)
		if err != nil || len(accounts) == 0 {
			removed = 0
			return err
		}
		removed = len(accounts)
		slices.Sort(accounts)
		accounts = slices.Compact(accounts)
		for _, account := range accounts {
			t.changed(k.view, account, false)
		}
		if k.view != store.ChangeInsights {
			return nil
		}
		// Samples are for accounts that never had an insight.
		_, err = t.Exec(ctx, `UPDATE accounts SET coached = 1 WHERE coached = 0 AND `+t.In("id"), t.Set(accounts))
		return err
	})
	return removed, err
}

// oldest is the query of the oldest records before an id.
func oldest(k Aging) string {
	return `SELECT id FROM ` + k.table + ` WHERE id > ? AND id < ? ORDER BY id LIMIT ?`
}

func pruneAlone(ctx context.Context, t *db.Tx, k Aging, before time.Time, limit int) (int, error) {
	if k.table == AgingAudit.table { // which lets nothing else go
		if _, err := t.Exec(ctx, `UPDATE audit_since SET at = ? WHERE at < ?`, db.Micros(before), db.Micros(before)); err != nil {
			return 0, err
		}
	}
	gone, err := t.Exec(ctx, `DELETE FROM `+k.table+` WHERE id IN (`+oldest(k)+`)`,
		k.prefix, db.FirstID(k.prefix, before), limit)
	return int(gone), err
}
