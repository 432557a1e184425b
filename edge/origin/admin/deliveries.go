package admin

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

// listDeliveries shows the log of a webhook with every try; ?outcome, ?state and
// ?event_id pick a part of it.
func (a *api) listDeliveries(r *http.Request) (answer, error) {
	return a.deliveryLog(r, deliveries.Filter{SubscriptionID: r.PathValue("id"), EventID: r.URL.Query().Get("event_id")})
}

// listEventDeliveries shows what became of one event at every subscription.
func (a *api) listEventDeliveries(r *http.Request) (answer, error) {
	return a.deliveryLog(r, deliveries.Filter{EventID: r.PathValue("id")})
}

// listAllDeliveries shows the log of all subscriptions, or of what the query selects.
func (a *api) listAllDeliveries(r *http.Request) (answer, error) {
	query, v := r.URL.Query(), input.Validator{Kind: input.KindParameter}
	span, err := spanOf(r)
	if err != nil {
		return answer{}, err
	}
	filter := deliveries.Filter{
		AccountID: query.Get("account_id"), EventType: query.Get("event_type"), Target: query.Get("target"), Since: span.Since, Until: span.Until,
	}
	if filter.EventType != "" {
		v.Each("event_type", []string{filter.EventType}, eventTypes[:]...)
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	return a.deliveryLog(r, filter)
}

func (a *api) deliveryLog(r *http.Request, filter deliveries.Filter) (answer, error) {
	query := r.URL.Query()
	switch filter.State = store.State(query.Get("state")); filter.State {
	case "", store.StatePending, store.StateDelivered, store.StateDead, store.StateCancelled:
	default:
		return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "state_invalid", Detail: "state must be pending, delivered, dead or cancelled"}
	}
	state := filter.State
	switch query.Get("outcome") {
	case "":
	case "pending":
		state = store.StatePending
	case "delivered":
		state = store.StateDelivered
	case "dead", "failed": // as it was called
		state = store.StateDead
	case "cancelled":
		state = store.StateCancelled
	case "refused": // in whatever state
		filter.Refused = true
	default:
		return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "outcome_invalid", Detail: "outcome must be pending, delivered, dead, cancelled or refused"}
	}
	if filter.State != "" && filter.State != state {
		return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "outcome_invalid", Detail: "outcome and state exclude each other"}
	}
	filter.State = state
	return page(r, func(p store.Page) ([]adminapi.Delivery, string, error) {
		found, next, err := a.DB.Deliveries(r.Context(), filter, p)
		if err != nil {
			return nil, "", err
		}
		tries, err := a.DB.AttemptsOf(r.Context(), found)
		if err != nil {
			return nil, "", err
		}
		deliveries := make([]adminapi.Delivery, len(found))
		for i, d := range found {
			deliveries[i] = toDelivery(d, tries[d.ID])
		}
		return deliveries, next, nil
	}, func(d adminapi.Delivery) adminapi.Delivery { return d })
}

func (a *api) deliveryWithTries(r *http.Request, d store.Delivery) (adminapi.Delivery, error) {
	var tries []store.Attempt
	if d.Attempts > 0 {
		var err error
		if tries, err = a.DB.Attempts(r.Context(), d.ID); err != nil {
			return adminapi.Delivery{}, err
		}
	}
	return toDelivery(d, tries), nil
}

// getDelivery shows a delivery, by its id or by that of one of its tries, with what was
// sent.
func (a *api) getDelivery(r *http.Request) (answer, error) {
	found, err := a.DB.FindDelivery(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	d, err := a.deliveryWithTries(r, found)
	if err != nil {
		return answer{}, err
	}
	event, err := a.DB.Event(r.Context(), d.EventID)
	if err != nil && !errors.Is(err, store.ErrNotFound) { // its time may have come
		return answer{}, err
	}
	webhook, err := a.DB.Subscription(r.Context(), d.SubscriptionID)
	if err != nil {
		return answer{}, err
	}
	d.Body, d.TargetURL = string(event.Body), webhook.TargetURL
	return ok(d, nil)
}

func (a *api) retryDelivery(r *http.Request) (answer, error) {
	delivery, err := a.DB.FindDelivery(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := a.retries.allow(delivery.SubscriptionID); err != nil {
		return answer{}, err
	}
	if delivery, err = a.DB.RetryDelivery(r.Context(), delivery.ID); err != nil {
		return answer{}, err
	}
	return ok(a.deliveryWithTries(r, delivery))
}

// recoverDeliveries queues again what could not be delivered of the events since
// a time.
func (a *api) recoverDeliveries(r *http.Request, in adminapi.Recovery, v *input.Validator) (answer, error) {
	v.Text("since", in.Since, 64)
	since := v.Time("since", in.Since)
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	webhook, err := a.DB.Subscription(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if err := a.recoveries.allow(webhook.ID); err != nil {
		return answer{}, err
	}
	queued, err := a.DB.RecoverDeliveries(r.Context(), webhook.ID, since)
	return ok(adminapi.Recovered{Queued: queued}, err)
}

const maxOverlap = 30 * 24 * time.Hour

// rotateSecret gives a subscription a new secret, which nobody can show again.
// The one before signs as well until the overlap ends; of earlier ones nothing
// is left.
func (a *api) rotateSecret(r *http.Request, in adminapi.SecretRotation, v *input.Validator) (answer, error) {
	overlap := v.Between("overlap_seconds", in.OverlapSeconds, 0, int64(maxOverlap/time.Second), int64(adminapi.SecretOverlap/time.Second))
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	until := a.DB.Now().Add(time.Duration(overlap) * time.Second)
	secret := RandomHex()
	s, err := a.DB.RotateSecret(r.Context(), r.PathValue("id"), secret, until)
	return created(adminapi.RotatedSecret{Webhook: a.toWebhook(s), Secret: secret, OverlapUntil: stamp(until)}, err)
}

// tailDeliveries streams the tries of this origin process as they end.
func (a *api) tailDeliveries(r *http.Request) (answer, error) {
	return a.streamed(r, func(ctx context.Context, send func(...message) error) error {
		tries, end := a.Tail()
		defer end()
		beat := time.Tick(streamBeat)
		if err := send(); err != nil { // from here on none is missed
			return err
		}
		for {
			var all []message
			select {
			case <-ctx.Done():
				return nil
			case <-beat:
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

// throttle bounds how often something is done to each of many records, in this
// process: a bucket a record, which forgets those that are full again.
type throttle struct {
	every time.Duration // after which a token comes back
	burst int
	now   func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

// throttleMost bounds the buckets; beyond it, full ones are removed.
const throttleMost = 1000

func newThrottle(every time.Duration, burst int, now func() time.Time) *throttle {
	return &throttle{every: every, burst: burst, now: now, buckets: make(map[string]*rate.Limiter)}
}

// allow spends a token of a record, or returns a problem with the time of the next.
func (t *throttle) allow(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	bucket := t.buckets[id]
	if bucket == nil {
		if len(t.buckets) >= throttleMost {
			t.sweep(now)
		}
		bucket = rate.NewLimiter(rate.Every(t.every), t.burst)
		t.buckets[id] = bucket
	}
	token := bucket.ReserveN(now, 1)
	if wait := token.DelayFrom(now); wait > 0 {
		token.CancelAt(now)
		return &input.Problem{Kind: input.KindLimited, Detail: "too often for one subscription; try again later", RetryAfter: wait}
	}
	return nil
}

func (t *throttle) sweep(now time.Time) {
	for id, bucket := range t.buckets {
		if bucket.TokensAt(now) >= float64(t.burst) {
			delete(t.buckets, id)
		}
	}
}

// SetRetryAfter writes a time in whole seconds, 1 at the least.
func SetRetryAfter(h http.Header, d time.Duration) {
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
}
