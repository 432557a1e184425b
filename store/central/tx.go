package central

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/central/db"
	"partneredge/store/central/deliveries"
	"partneredge/store/valid"
)

// tx is a shared transaction and what its jobs leave to be written at its end.
type tx struct {
	*db.Tx
	commits    *commits
	log        *slog.Logger
	modes      map[string]store.Mode // of the accounts it holds
	modesWere  []modeWas             // before jobs changed them, in order
	eventAt    map[string]int64      // when accounts that it holds had their last event
	times      map[series]*times     // once read
	newest     map[series]newest     // of series without an account, once one asked
	firings    []store.Firing
	events     []*store.Event
	deliveries *deliveries.Batch
	changes    []store.Change // numbered by Flush
	rollouts   bool           // a rollout was written
	audit      audit.Log      // of the job that runs
}

func (d *DB) newTx(t *db.Tx) db.Batch {
	return &tx{
		Tx: t, commits: &d.commits, log: d.log, deliveries: d.NewBatch(t),
		modes: make(map[string]store.Mode), eventAt: make(map[string]int64), times: make(map[series]*times),
		newest: make(map[series]newest),
	}
}

// modeWas is the mode that an account had before a job changed it.
type modeWas struct {
	account string
	mode    store.Mode
}

// setMode notes the mode that a job has given an account, for the jobs after it.
func (t *tx) setMode(account string, mode store.Mode) {
	t.modesWere = append(t.modesWere, modeWas{account, t.modes[account]})
	t.modes[account] = mode
}

// work is the function of a write. It may run more than once, but only the last
// run counts, so what it leaves for its caller it must assign, not add to.
type work func(context.Context, *tx) error

// change runs fn in a shared transaction that holds the row of account, so that
// all writes to one account happen one after the other. account "" holds none.
// The actor of ctx is the one whom the audit log names.
func (d *DB) change(ctx context.Context, account string, fn work) error {
	log := audit.LogOf(ctx)
	return d.db.Write(ctx, account, func(ctx context.Context, shared *db.Tx) error {
		t := shared.Batch.(*tx)
		if _, held := t.modes[account]; account != "" && !held {
			return fmt.Errorf("%w: account", store.ErrNotFound)
		}
		t.audit = log
		return fn(ctx, t)
	})
}

// write is change without an account, for a method of the package: it runs fn
// unless refused says why the call makes no sense. Its error says what was tried.
func (d *DB) write(ctx context.Context, op string, refused error, fn work) error {
	if refused == nil {
		refused = d.change(ctx, "", fn)
	}
	return db.Fail(op, refused)
}

// writeTo is write to an account, which must exist.
func (d *DB) writeTo(ctx context.Context, op, account string, refused error, fn work) error {
	if refused = cmp.Or(valid.Reference("account", account), refused); refused == nil {
		refused = d.change(ctx, account, fn)
	}
	return db.Fail(op, refused)
}

// audited writes to the audit log what the actor of the job did to a record.
func (t *tx) audited(ctx context.Context, e audit.Entry) error { return t.audit.Add(ctx, t.Tx, e) }

// RolloutWritten implements fleet.Batch.
func (t *tx) RolloutWritten() { t.rollouts = true }

// written returns the record of a write, and with an error none.
func written[T any](record T, err error) (T, error) {
	if err != nil {
		var none T
		return none, err
	}
	return record, nil
}

// Lock implements db.Batch: it locks accounts, and learns their modes and when they had
// their last events.
func (t *tx) Lock(ctx context.Context, accounts []string) error {
	t.deliveries.Expect(accounts)
	return db.Each(ctx, t, func(row db.Row) error {
		var id string
		var mode store.Mode
		var at int64
		err := row.Scan(&id, &mode, &at)
		t.modes[id], t.eventAt[id] = mode, at
		return err
	}, t.ForUpdate(`SELECT id, mode, event_at FROM accounts WHERE `+t.In("id")+` ORDER BY id`), t.Set(accounts))
}

// Mark implements db.Batch.
func (t *tx) Mark() (reset func()) {
	firings, events, changes, rollouts := len(t.firings), len(t.events), len(t.changes), t.rollouts
	modes, resetDeliveries := len(t.modesWere), t.deliveries.Mark()
	return func() {
		for _, was := range slices.Backward(t.modesWere[modes:]) {
			t.modes[was.account] = was.mode
		}
		t.modesWere = t.modesWere[:modes]
		t.firings, t.events = t.firings[:firings], t.events[:events]
		t.changes, t.rollouts = t.changes[:changes], rollouts
		resetDeliveries()
	}
}

// Flush implements db.Batch. The counter of changes comes last, since until the
// commit every other process waits for it.
func (t *tx) Flush(ctx context.Context) error {
	if err := insertFirings.Run(ctx, t.Tx, t.firings); err != nil {
		return err
	}
	if err := t.writeEvents(ctx); err != nil {
		return err
	}
	if err := t.deliveries.Flush(ctx); err != nil {
		return err
	}
	return t.writeChanges(ctx)
}

// Committed implements db.Batch.
func (t *tx) Committed() {
	t.deliveries.Committed()
	t.commits.publish(Commit{Changes: t.changes, Deliveries: t.deliveries.Due(), Rollouts: t.rollouts})
}

// changed notes a change, to be numbered when the transaction ends. The same
// change twice in one transaction is one.
func (t *tx) changed(kind store.ChangeKind, ref string, gone bool) {
	c := store.Change{Kind: kind, Ref: ref, Gone: gone}
	if !slices.Contains(t.changes, c) {
		t.changes = append(t.changes, c)
	}
}

// Commit describes a committed transaction by what it leaves for others to do.
type Commit struct {
	Changes    []store.Change // for nodes, in order of Seq
	Deliveries int            // due at once and claimed by nobody
	Rollouts   bool           // a rollout was added or stepped, so nodes may have other releases to run
}

func (c Commit) empty() bool { return len(c.Changes) == 0 && c.Deliveries == 0 && !c.Rollouts }

// commits calls subscribers after each commit. Its zero value has none.
type commits struct {
	mu          sync.RWMutex
	subscribers []*func(Commit)
}

func (c *commits) publish(commit Commit) {
	if commit.empty() {
		return
	}
	c.mu.RLock()
	subscribers := c.subscribers
	c.mu.RUnlock()
	for _, fn := range subscribers {
		(*fn)(commit)
	}
}

// OnCommit calls fn after each commit of this process that leaves something for
// others to do, one commit after the other in their order, until unsubscribe is
// called. The call of fn comes before the write itself returns, and no other
// write goes on meanwhile, so fn must return at once and must not call the DB.
// One more call of fn may be under way when unsubscribe returns.
func (d *DB) OnCommit(fn func(Commit)) (unsubscribe func()) {
	c := &d.commits
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(slices.Clone(c.subscribers), &fn)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.subscribers = slices.DeleteFunc(slices.Clone(c.subscribers), func(other *func(Commit)) bool { return other == &fn })
	}
}
