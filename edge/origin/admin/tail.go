package admin

import (
	"context"
	"net/http"
	"time"
)

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
				text, err := encode(toTried(t))
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
