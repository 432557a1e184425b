package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

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
		v.Each("event_type", []string{filter.EventType}, adminapi.EventTypes()...)
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
	switch outcome := store.State(query.Get("outcome")); outcome {
	case "":
	case store.StatePending, store.StateDelivered, store.StateDead, store.StateCancelled:
		state = outcome
	case "failed": // as dead was called
		state = store.StateDead
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

// recoverTime bounds the work of one request that recovers deliveries: clients wait for 30 s.
const recoverTime = 10 * time.Second

// recoverDeliveries queues again what could not be delivered of the events of a span, as many
// as it gets to: of a subscription, or of all where the path names none.
func (a *api) recoverDeliveries(r *http.Request, in adminapi.Recovery, v *input.Validator) (answer, error) {
	v.Text("since", in.Since, 64)
	span := store.Span{Since: v.Time("since", in.Since), Until: v.Time("until", in.Until)}
	cursor := v.Optional("cursor", in.Cursor, 200) // where to go on
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	limited, requeue := "all", a.DB.RecoverAllDeliveries
	if id := r.PathValue("id"); id != "" {
		if _, err := a.DB.Subscription(r.Context(), id); err != nil {
			return answer{}, err
		}
		limited, requeue = id, func(ctx context.Context, of store.Span, after string, long time.Duration) (int, string, error) {
			return a.DB.RecoverDeliveries(ctx, id, of, after, long)
		}
	}
	if cursor == "" { // what goes on is part of the request that began
		if err := a.recoveries.allow(limited); err != nil {
			return answer{}, err
		}
	}
	queued, last, err := requeue(r.Context(), span, cursor, recoverTime)
	return ok(adminapi.Recovered{Queued: queued, NextCursor: adminapi.Cursor(last)}, err)
}

// revokeWebhook ends a subscription, and cancels what waits for it.
func (a *api) revokeWebhook(r *http.Request) (answer, error) {
	s, err := a.DB.Subscription(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if _, err := a.DB.RevokeSubscription(r.Context(), s.AccountID, s.ID); err != nil {
		return answer{}, err
	}
	s, err = a.DB.Subscription(r.Context(), s.ID)
	return ok(a.toWebhook(s), err)
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
