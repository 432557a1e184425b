package node

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/durable/durabletest"
)

// TestLeadsAreOfferedAgain: an origin that was put back gets each lead that was
// handed over, once, and so it does after restarts of the node. One whose history
// goes on, or that has only forgotten old changes, gets none of them.
func TestLeadsAreOfferedAgain(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.history = "his_1"
	key := o.addKey("key_1", nil)
	c := config(t, o)
	c.KeepLeads = 48 * time.Hour
	n := startNode(t, c)
	idle := func() {
		t.Helper()
		eventually(t, "the leads are handed over", func() bool { return n.store.Outbox.Len() == 0 })
	}
	leads := func() (all map[string]int) {
		o.do(func() { all = maps.Clone(o.leads) })
		return all
	}
	for i := range 5 {
		ask(t, n, "POST", newLead, key, fmt.Sprintf(`{"name":"Lead %d","phone":"5550100"}`, i)).want(t, 201)
	}
	idle()
	want := leads()
	if len(want) != 5 {
		t.Fatalf("the origin has %v", want)
	}

	o.do(func() { o.history, o.goesOn = "his_2", map[string]int64{"his_1": 1} })
	o.push()
	eventually(t, "the node follows", func() bool { return n.store.Cursor().History == "his_2" })
	epoch := n.store.Cursor().Epoch
	o.do(func() { // at once: the node may ask at any time
		for range 3 {
			o.change(store.ChangeKey, "key_1", false)
		}
		o.pruned = 3
	})
	o.push()
	eventually(t, "the node asked for everything again", func() bool { return n.store.Cursor().Epoch > epoch })
	idle()
	if got := leads(); !maps.Equal(got, want) {
		t.Errorf("an origin that goes on has %v, want %v", got, want)
	}

	for i := range 2 {
		o.do(func() {
			o.history, o.goesOn = fmt.Sprint("his_back_", i), nil
			clear(o.leads)
		})
		o.push()
		eventually(t, "the leads are there again", func() bool { return len(leads()) == len(want) })
		idle()
		if got := leads(); !maps.Equal(got, want) {
			t.Errorf("an origin that was put back has %v, want %v", got, want)
		}
		stopNode(t, n)
		n = startNode(t, c)
	}
}

// TestLateAnswerOfALostOrigin: what an origin confirms of leads and then loses, since
// it was put back before its answer came, is offered again.
func TestLateAnswerOfALostOrigin(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.history = "his_1"
	key := o.addKey("key_1", nil)
	c := config(t, o)
	c.KeepLeads = 48 * time.Hour
	n := startNode(t, c)
	release := make(chan struct{})
	o.do(func() {
		o.hold = func(verb string) {
			if verb == wire.VerbLeads {
				<-release
			}
		}
	})
	ask(t, n, "POST", newLead, key, `{"name":"Ana Lima","phone":"5550100"}`).want(t, 201)
	count := func() (n int) {
		o.do(func() { n = len(o.leads) })
		return n
	}
	eventually(t, "the lead is at the origin", func() bool { return count() == 1 })
	o.do(func() {
		o.history, o.hold = "his_2", nil
		clear(o.leads)
	})
	o.push()
	eventually(t, "the node follows", func() bool { return n.store.Cursor().History == "his_2" })
	close(release)
	eventually(t, "the lead is there again", func() bool { return count() == 1 })
	eventually(t, "nothing waits", func() bool { return n.store.Outbox.Len() == 0 })
}

// TestOutboxThatCannotOfferAgain: a node whose outbox cannot offer again what an origin
// that was put back may have lost is in step with it all the same, and the leads are
// offered once the outbox can, also after a restart of the node.
func TestOutboxThatCannotOfferAgain(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("restarts ", restarts), func(t *testing.T) {
			o := newOrigin(t)
			o.history = "his_1"
			o.accounts["acc_1"] = store.Account{ID: "acc_1"}
			key, victim := o.addKey("key_1", nil), o.addKey("key_2", nil)
			c := config(t, o)
			c.KeepLeads = 48 * time.Hour
			state := filepath.Join(c.Data, "state")
			if err := os.MkdirAll(state, 0o700); err != nil {
				t.Fatal(err)
			}
			broken := new(atomic.Bool)
			disk := durabletest.New(t, state)
			disk.Before(func(op durabletest.Op) error {
				if broken.Load() && op.Kind != durabletest.Write && strings.Contains(op.Path, "outbox.log") {
					return errors.New("input/output error")
				}
				return nil
			})
			c.FS = disk
			n := startNode(t, c)
			ask(t, n, "GET", me, victim, "").want(t, 200)
			ask(t, n, "POST", newLead, key, `{"name":"Ana Lima","phone":"5550100"}`).want(t, 201)
			eventually(t, "the lead is handed over", func() bool { return n.store.Outbox.Len() == 0 })
			// What the outbox is asked for now is done after that is noted on disk.
			if err := n.store.Outbox.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}

			broken.Store(true)
			o.do(func() {
				o.history = "his_2"
				clear(o.leads)
			})
			o.editKey(victim, true, func(k *store.Key) { k.RevokedAt = time.Now() })
			o.push()
			eventually(t, "the node follows", func() bool { return n.store.Cursor().History == "his_2" })
			ask(t, n, "GET", me, victim, "").want(t, 401, "api_key_revoked")
			eventually(t, "the node is in step", func() bool { return !n.store.Cursor().CompleteAt.IsZero() && n.store.Cursor().OfferDue })
			if restarts {
				stopNode(t, n)
			}
			broken.Store(false)
			if restarts {
				n = startNode(t, c)
			}
			eventually(t, "the lead is there again", func() (there bool) {
				o.do(func() { there = len(o.leads) == 1 })
				return there
			})
			eventually(t, "nothing is due", func() bool { return !n.store.Cursor().OfferDue && n.store.Outbox.Len() == 0 })
		})
	}
}
