package central

import (
	"cmp"
	"context"
	"fmt"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/valid"
)

const accountColumns = `a.id, a.name, a.mode, a.created_at, g.id, g.email, g.full_name, g.joined_at`

var accountTable = db.Table[store.Account]{
	Noun: "account", From: `accounts a JOIN agents g ON g.account_id = a.id`, ID: "a.id", Columns: accountColumns, Scan: scanAccount,
}

func scanAccount(row db.Row) (a store.Account, err error) {
	err = row.Scan(&a.ID, &a.Name, &a.Mode, db.Time(&a.CreatedAt),
		&a.Agent.ID, &a.Agent.Email, &a.Agent.FullName, db.Time(&a.Agent.JoinedAt))
	return a, err
}

func validateAccount(a store.Account) error {
	return cmp.Or(valid.IDs("account id", a.ID, "agent id", a.Agent.ID),
		valid.Texts("name", a.Name, "agent email", a.Agent.Email, "agent full name", a.Agent.FullName),
		valid.OneOf("activation mode", a.Mode, store.ModeSetup, store.ModeLive),
		valid.Times(a.CreatedAt, a.Agent.JoinedAt))
}

// CreateAccount makes an account with its agent. What is not set gets a value:
// ids are made, times are now, the mode is setup. ErrConflict when the id exists
// already.
func (d *DB) CreateAccount(ctx context.Context, a store.Account) (store.Account, error) {
	now := d.db.Now()
	a.ID, a.Agent.ID = cmp.Or(a.ID, store.NewID("acc", now)), cmp.Or(a.Agent.ID, store.NewID("agt", now))
	a.Mode = cmp.Or(a.Mode, store.ModeSetup)
	a.CreatedAt = db.TimeOr(a.CreatedAt, now)
	a.Agent.JoinedAt = db.TimeOr(a.Agent.JoinedAt, now)
	return written(a, d.write(ctx, "create account", validateAccount(a), func(ctx context.Context, t *tx) error {
		if _, err := t.Exec(ctx, `INSERT INTO accounts (id, name, mode, created_at) VALUES (?, ?, ?, ?)`,
			a.ID, a.Name, string(a.Mode), store.Micros(a.CreatedAt)); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `INSERT INTO agents (id, account_id, email, full_name, joined_at) VALUES (?, ?, ?, ?, ?)`,
			a.Agent.ID, a.ID, a.Agent.Email, a.Agent.FullName, store.Micros(a.Agent.JoinedAt)); err != nil {
			return err
		}
		return t.audited(ctx, audit.Entry{Action: "account.create", Target: a.ID, After: a})
	}))
}

// Account reads one account.
func (d *DB) Account(ctx context.Context, id string) (store.Account, error) {
	return accountTable.Read(ctx, d.db, id)
}

// Accounts lists all accounts, newest first, with the cursor of the next page,
// "" at the end.
func (d *DB) Accounts(ctx context.Context, p store.Page) ([]store.Account, string, error) {
	return accountTable.List(ctx, d.db, p)
}

// AccountPatch names what to change; nil leaves a field as it is.
type AccountPatch struct {
	Name     *string
	Mode     *store.Mode
	Email    *string // of the agent
	FullName *string // of the agent
}

func (p AccountPatch) apply(a store.Account) store.Account {
	if p.Name != nil {
		a.Name = *p.Name
	}
	if p.Mode != nil {
		a.Mode = *p.Mode
	}
	if p.Email != nil {
		a.Agent.Email = *p.Email
	}
	if p.FullName != nil {
		a.Agent.FullName = *p.FullName
	}
	return a
}

// UpdateAccount changes an account. changed is false when it was so already,
// and then no change is made for nodes.
func (d *DB) UpdateAccount(ctx context.Context, id string, p AccountPatch) (a store.Account, changed bool, err error) {
	modeChanged := false // by any run: the commit of one that failed may have gone through
	err = d.writeTo(ctx, "update account", id, nil, func(ctx context.Context, t *tx) error {
		before, err := accountTable.Get(ctx, t, id)
		if err != nil {
			return err
		}
		a = p.apply(before)
		if changed = a != before; !changed {
			return nil
		}
		if err := validateAccount(a); err != nil {
			return err
		}
		modeChanged = modeChanged || a.Mode != before.Mode
		if _, err := t.Exec(ctx, `UPDATE accounts SET name = ?, mode = ? WHERE id = ?`, a.Name, string(a.Mode), id); err != nil {
			return err
		}
		if _, err := t.Exec(ctx, `UPDATE agents SET email = ?, full_name = ? WHERE account_id = ?`,
			a.Agent.Email, a.Agent.FullName, id); err != nil {
			return err
		}
		t.setMode(id, a.Mode)
		t.changed(store.ChangeProfile, id, false)
		return t.audited(ctx, audit.Entry{Action: "account.update", Target: id, Before: before, After: a})
	})
	if modeChanged { // whatever err says
		d.EndpointsChanged()
	}
	if err != nil {
		return store.Account{}, false, err
	}
	return a, changed, nil
}

// listOf reads a page of an account's records, newest first.
func listOf[T any](ctx context.Context, d *DB, k db.Table[T], account string, p store.Page) ([]T, string, error) {
	op := "list " + k.Noun + "s"
	if err := valid.Reference("account", account); err != nil {
		return nil, "", db.Fail(op, err)
	}
	l := db.Listing[T]{
		Table: k.From, Columns: k.Columns, Scan: k.Scan,
		Name: k.From + "\x00" + account + "\x00", Column: "account_id", Value: account,
	}
	items, next, err := l.Page(ctx, d.db, p)
	if err == nil && len(items) == 0 {
		err = d.mustHaveAccount(ctx, account)
	}
	return items, next, db.Fail(op, err)
}

// mustHaveAccount returns ErrNotFound when there is no such account.
func (d *DB) mustHaveAccount(ctx context.Context, id string) error {
	var found int
	if err := d.db.QueryRow(ctx, `SELECT 1 FROM accounts WHERE id = ?`, id).Scan(&found); err != nil {
		return fmt.Errorf("account: %w", err)
	}
	return nil
}
