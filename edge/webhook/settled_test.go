package webhook

import (
	"slices"
	"testing"

	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/deliveries"
)

// settled waits until nothing waits for a subscription, and compares the log with
// what its endpoint got: every event that was accepted is delivered or
// has used up its tries, and each try that arrived is in the log, once.
func settled(t *testing.T, db *central.DB, sub store.Subscription, endpoint *receiver, accepted []string, most int) (states map[store.State]int) {
	t.Helper()
	all := func(f deliveries.Filter) (items []store.Delivery) {
		f.SubscriptionID = sub.ID
		for page := (store.Page{Limit: 200}); ; {
			part, next, err := db.Deliveries(t.Context(), f, page)
			must(t, err)
			items = append(items, part...)
			if page.Cursor = next; next == "" {
				return items
			}
		}
	}
	until(t, "nothing waits", func() bool { return len(all(deliveries.Filter{State: store.StatePending})) == 0 })

	states = map[store.State]int{}
	logged := map[string]string{}    // delivery id of a try -> event
	delivered := map[string]string{} // event -> delivery id of the try that was acknowledged
	known := map[string]bool{}
	for _, d := range all(deliveries.Filter{}) {
		states[d.State]++
		known[d.EventID] = true
		tries, err := db.Attempts(t.Context(), d.ID)
		must(t, err)
		for i, a := range tries {
			if a.Number != i+1 {
				t.Errorf("try %d of event %s has number %d", i+1, d.EventID, a.Number)
			}
			logged[a.ID] = d.EventID
		}
		well := slices.IndexFunc(tries, func(a store.Attempt) bool { return a.Status == 200 })
		switch {
		case len(tries) != d.Attempts:
			t.Errorf("event %s has %d tries, of which %d are logged", d.EventID, d.Attempts, len(tries))
		case d.State == store.StateDelivered && well >= 0 && well == len(tries)-1:
			delivered[d.EventID] = tries[well].ID
		case d.State == store.StateDead && well < 0 && len(tries) == most:
		default:
			t.Errorf("event %s is %s after %d tries, of which number %d went well", d.EventID, d.State, len(tries), well+1)
		}
	}
	for _, event := range accepted {
		if !known[event] {
			t.Errorf("event %s was accepted and is lost", event)
		}
	}
	arrived := map[string]bool{}
	for _, g := range endpoint.all() {
		verified(t, g, sub.Secret)
		id, event := g.header.Get("X-Svc-Delivery-Id"), g.header.Get("X-Svc-Event-Id")
		if arrived[id] || logged[id] != event {
			t.Errorf("try %s of event %s arrived; again: %t, in the log for %q", id, event, arrived[id], logged[id])
		}
		arrived[id] = true
	}
	for event, id := range delivered {
		if !arrived[id] {
			t.Errorf("event %s is logged as delivered by %s, which never arrived", event, id)
		}
	}
	return states
}
