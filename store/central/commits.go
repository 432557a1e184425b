package central

import (
	"slices"
	"sync"

	"partneredge/store"
)

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
