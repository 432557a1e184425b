package admin

import (
	"context"
	"net/http"
	"time"

	"partneredge/store"
)

// triedView is a try that has just ended.
type triedView struct {
	SubscriptionID string  `json:"subscription_id"`
	TargetURL      string  `json:"target_url"`
	EventID        string  `json:"event_id"`
	EventType      string  `json:"event_type"`
	State          string  `json:"state"`
	NextAt         stamp   `json:"next_at"`
	Try            tryView `json:"try"`
}

func viewTried(t store.Tried) triedView {
	return triedView{
		t.SubscriptionID, t.TargetURL, t.EventID, t.EventType, string(t.State), stamp(t.NextAt), viewTry(t.Attempt),
	}
}

// tailDeliveries streams the tries of this origin process as they end.
func (a *api) tailDeliveries(r *http.Request) (answer, error) {
	return a.streamed(r, func(ctx context.Context, send func(...message) error) error {
		tries, end := a.Tail()
		defer end()
		beat := time.NewTicker(streamBeat)
		defer beat.Stop()
		if err := send(); err != nil { // from here on none is missed
			return err
		}
		for {
			var all []message
			select {
			case <-ctx.Done():
				return nil
			case <-beat.C:
			case t, more := <-tries:
				if !more {
					return nil
				}
				text, err := encode(viewTried(t))
				if err != nil {
					return err
				}
				all = append(all, message{name: "try", data: text})
			}
			if err := send(all...); err != nil {
				return err
			}
		}
	})
}
