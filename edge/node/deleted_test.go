package node

import (
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestDeletedAccountLeavesNothing: what a node holds of an account goes when that is
// deleted, also what was on its way to the node just then.
func TestDeletedAccountLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, onItsWay := range map[string]bool{"held": false, "on its way": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "Dana Reyes"}
			key := o.addKey("key_1", nil)
			n := startNode(t, config(t, o))
			kinds := []store.ChangeKind{store.ChangeProfile, store.ChangeInsights, store.ChangeFirings}
			asked := func() {
				for _, path := range []string{me, insights, firings} {
					ask(t, n, "GET", path, key, "")
				}
			}
			if !onItsWay {
				asked()
				if _, _, held := n.store.Views.Find("profile/acc_1"); !held {
					t.Fatal("no view is held, and was to be")
				}
			}
			deleted := func() {
				changes := []store.Change{o.editKey(key, true, func(k *store.Key) { k.RevokedAt = time.Now() })}
				o.do(func() {
					delete(o.accounts, "acc_1")
					o.fail[wire.VerbView] = wire.Refused
					for _, kind := range kinds {
						changes = append(changes, o.change(kind, "acc_1", true))
					}
				})
				o.push(changes...)
				eventually(t, "the node knows of it", func() bool { return n.store.Cursor().Seq >= changes[len(changes)-1].Seq })
			}
			if onItsWay {
				done := make(chan struct{})
				o.do(func() {
					o.hold = func(verb string) {
						if verb == wire.VerbView {
							<-done
						}
					}
				})
				over := make(chan struct{})
				go func() {
					defer close(over)
					ask(t, n, "GET", me, key, "")
				}()
				eventually(t, "the profile is asked for", func() bool { return o.requests(wire.VerbView) > 0 })
				deleted()
				close(done)
				<-over
			} else {
				deleted()
			}
			for _, kind := range kinds {
				if _, _, held := n.store.Views.Find(string(kind) + "/acc_1"); held {
					t.Errorf("the account's %s are still held", kind)
				}
			}
		})
	}
}
