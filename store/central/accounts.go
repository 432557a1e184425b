package central

import (
	"context"
	"fmt"

	"partneredge/store"
)

const (
	accountTable   = `accounts a JOIN agents g ON g.account_id = a.id`
	accountColumns = `a.id, a.name, a.mode, a.created_at, g.id, g.email, g.full_name, g.joined_at`
)

func scanAccount(row scanner) (a store.Account, err error) {
	err = row.Scan(&a.ID, &a.Name, &a.Mode, asTime(&a.CreatedAt),
		&a.Agent.ID, &a.Agent.Email, &a.Agent.FullName, asTime(&a.Agent.JoinedAt))
	return a, err
}

func checkAccount(a store.Account) error {
	if err := checkIDs(field{"account id", a.ID}, field{"agent id", a.Agent.ID}); err != nil {
		return err
	}
	if err := checkTexts(field{"name", a.Name}, field{"agent email", a.Agent.Email}, field{"agent full name", a.Agent.FullName}); err != nil {
		return err
	}
	if err := checkMode(a.Mode); err != nil {
		return err
	}
	return checkTimes(a.CreatedAt, a.Agent.JoinedAt)
}

// CreateAccount makes an account with its agent. What is not set gets a value:
// ids are made, times are now, the mode is setup. ErrConflict when the id is
// taken.
func (db *DB) CreateAccount(ctx context.Context, a store.Account) (store.Account, error) {
	const tried = "create account"
	now := db.now()
	if a.ID == "" {
		a.ID = store.NewID("acc", now)
	}
	if a.Agent.ID == "" {
		a.Agent.ID = store.NewID("agt", now)
	}
	if a.Mode == "" {
		a.Mode = store.ModeSetup
	}
	a.CreatedAt = timeOr(a.CreatedAt, now)
	a.Agent.JoinedAt = timeOr(a.Agent.JoinedAt, now)
	if err := checkAccount(a); err != nil {
		return store.Account{}, db.fail(tried, err)
	}
	err := db.change(ctx, "", func(ctx context.Context, t *tx) error {
		if _, err := t.exec(ctx, `INSERT INTO accounts (id, name, mode, created_at) VALUES (?, ?, ?, ?)`,
			a.ID, a.Name, string(a.Mode), micros(a.CreatedAt)); err != nil {
			return err
		}
		if _, err := t.exec(ctx, `INSERT INTO agents (id, account_id, email, full_name, joined_at) VALUES (?, ?, ?, ?, ?)`,
			a.Agent.ID, a.ID, a.Agent.Email, a.Agent.FullName, micros(a.Agent.JoinedAt)); err != nil {
			return err
		}
		return t.audited(ctx, "account.create", a.ID, nil, a)
	})
	if err != nil {
		return store.Account{}, db.fail(tried, err)
	}
	return a, nil
}

// Account reads one account.
func (db *DB) Account(ctx context.Context, id string) (store.Account, error) {
	if err := mustBeText("account", id); err != nil {
		return store.Account{}, db.fail("read account", err)
	}
	a, err := scanAccount(db.queryRow(ctx, `SELECT `+accountColumns+` FROM `+accountTable+` WHERE a.id = ?`, id))
	return a, db.fail("read account", err)
}

// Accounts lists all accounts, newest first, with the cursor of the next page,
// "" at the end.
func (db *DB) Accounts(ctx context.Context, p store.Page) ([]store.Account, string, error) {
	l := listing[store.Account]{table: accountTable, columns: accountColumns, scan: scanAccount}
	items, next, err := l.page(ctx, db, p)
	return items, next, db.fail("list accounts", err)
}

// mustHaveAccount is ErrNotFound when there is no such account.
func (db *DB) mustHaveAccount(ctx context.Context, id string) error {
	var one int
	if err := db.queryRow(ctx, `SELECT 1 FROM accounts WHERE id = ?`, id).Scan(&one); err != nil {
		return fmt.Errorf("account: %w", err)
	}
	return nil
}

// AccountPatch names what to change; nil leaves a field as it is.
type AccountPatch struct {
	Name     *string
	Mode     *store.Mode
	Email    *string // of the agent
	FullName *string // of the agent
}

// UpdateAccount changes an account. changed is false when it was so already,
// and then no node is told.
func (db *DB) UpdateAccount(ctx context.Context, id string, p AccountPatch) (a store.Account, changed bool, err error) {
	const tried = "update account"
	if err := mustBeText("account", id); err != nil {
		return store.Account{}, false, db.fail(tried, err)
	}
	err = db.change(ctx, id, func(ctx context.Context, t *tx) error {
		rows, err := t.query(ctx, `SELECT `+accountColumns+` FROM `+accountTable+` WHERE a.id = ?`, id)
		if err != nil {
			return err
		}
		before, err := only(rows, scanAccount)
		if err != nil {
			return err
		}
		a = patched(before, p)
		if changed = a != before; !changed {
			return nil
		}
		if err := checkAccount(a); err != nil {
			return err
		}
		if _, err := t.exec(ctx, `UPDATE accounts SET name = ?, mode = ? WHERE id = ?`, a.Name, string(a.Mode), id); err != nil {
			return err
		}
		if _, err := t.exec(ctx, `UPDATE agents SET email = ?, full_name = ? WHERE account_id = ?`,
			a.Agent.Email, a.Agent.FullName, id); err != nil {
			return err
		}
		t.modes[id] = a.Mode
		t.changed(store.ChangeProfile, id, false)
		return t.audited(ctx, "account.update", id, before, a)
	})
	if err != nil {
		return store.Account{}, false, db.fail(tried, err)
	}
	db.standings.Add(1)
	return a, changed, nil
}

func patched(a store.Account, p AccountPatch) store.Account {
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
