package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central/idempotency"
	"partneredge/wasm/abi"
)

// addCoachingRun takes the insights of one run. A run without any is noted
// nowhere.
func (a *api) addCoachingRun(r *http.Request, in adminapi.NewCoachingRun, v *input.Validator) (answer, error) {
	if in.Insights == nil {
		v.Fail("insights", "required", "insights must be a list")
		return answer{}, v.Err()
	}
	if len(*in.Insights) > input.MaxInRun {
		v.Fail("insights", "too_long", fmt.Sprintf("insights holds at most %d", input.MaxInRun))
	}
	var insights []store.Insight
	for _, i := range *in.Insights {
		insight := store.Insight{
			Headline:  v.Text("headline", i.Headline, input.MaxHeadline),
			Detail:    v.Optional("detail", i.Detail, input.MaxDetail),
			CreatedAt: v.Time("created_at", i.CreatedAt),
		}
		if i.Detail == nil {
			v.Fail("detail", "required", "detail must be there")
		}
		insights = append(insights, insight)
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	added, event, err := addOnce(a, r, in, func(ctx context.Context) ([]store.Insight, *store.Event, error) {
		return a.DB.AddCoachingRun(ctx, r.PathValue("id"), insights)
	})
	return createdIf(len(added) > 0, toCoachingRun(added, event), err)
}

// emitted traces an event; nil is none.
func (a *api) emitted(ctx context.Context, e *store.Event) {
	if e != nil {
		a.Tracer.Emitted(ctx, e.ID, e.Type, e.CreatedAt)
	}
}

// addOnce adds what a request asks for, under the name that its Idempotency-Key gives it, and
// traces the event. That of a repetition was traced before.
func addOnce[T any](a *api, r *http.Request, in any, add func(context.Context) (T, *store.Event, error)) (added T, event *store.Event, err error) {
	ctx, once, err := named(r, in)
	if err != nil {
		return added, nil, err
	}
	added, event, err = add(ctx)
	if !once.Repeated {
		a.emitted(ctx, event)
	}
	return added, event, err
}

// named returns the context of a write that the Idempotency-Key of its request
// names. in is what the request asks for. Without a key the write has no name.
func named(r *http.Request, in any) (context.Context, *idempotency.Request, error) {
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		return r.Context(), new(idempotency.Request), nil
	}
	if len(keys) > 1 || !abi.IsOnceKey(keys[0]) {
		return nil, nil, &input.Problem{Kind: "invalid_idempotency_key", Detail: "Idempotency-Key must be one of 1 to 255 printable ASCII characters"}
	}
	text, err := encode(in)
	if err != nil {
		return nil, nil, fmt.Errorf("name a request: %w", err)
	}
	digest := sha256.Sum256(text)
	once := &idempotency.Request{Key: keys[0], Digest: hex.EncodeToString(digest[:])}
	return idempotency.With(r.Context(), once), once, nil
}

func (a *api) addFiring(r *http.Request, in adminapi.NewFiring, v *input.Validator) (answer, error) {
	firing := store.Firing{
		AccountID:   r.PathValue("id"),
		Name:        v.Text("sentinel_name", in.SentinelName, input.MaxSentinel),
		Data:        v.Object(input.FreeForm, in.TriggerData),
		Action:      v.Text("action_taken", in.ActionTaken, input.MaxAction),
		TriggeredAt: v.Time("triggered_at", in.TriggeredAt),
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	firing, event, err := addOnce(a, r, in, func(ctx context.Context) (store.Firing, *store.Event, error) {
		return a.DB.AddFiring(ctx, firing)
	})
	return created(toFiring(firing, event), err)
}

func (a *api) putDeal(r *http.Request, in adminapi.NewStage, v *input.Validator) (answer, error) {
	id := r.PathValue("deal_id")
	deal := store.Deal{
		ID:        v.ID("deal_id", &id),
		AccountID: r.PathValue("id"),
		Stage:     v.Text("stage", in.Stage, input.MaxStage),
		ChangedAt: v.Time("changed_at", in.ChangedAt),
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	put, err := a.DB.PutDeal(r.Context(), deal)
	a.emitted(r.Context(), put.Event)
	return createdIf(put.Changed, toDeal(put.Record, put.Event), err)
}

func (a *api) addContact(r *http.Request, in adminapi.NewContact, v *input.Validator) (answer, error) {
	contact := store.Contact{
		AccountID:  r.PathValue("id"),
		ClientID:   v.ID("client_id", in.ClientID),
		Channel:    v.OneOf("channel", in.Channel, "phone", "email", "sms"),
		OccurredAt: v.Time("occurred_at", in.OccurredAt),
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	contact, event, err := addOnce(a, r, in, func(ctx context.Context) (store.Contact, *store.Event, error) {
		return a.DB.AddContact(ctx, contact)
	})
	return created(toContact(contact, event), err)
}

func (a *api) putGoal(r *http.Request, in adminapi.NewPace, v *input.Validator) (answer, error) {
	id := r.PathValue("goal_id")
	goal := store.Goal{
		ID:        v.ID("goal_id", &id),
		AccountID: r.PathValue("id"),
		Pace:      v.OneOf("pace", in.Pace, "on_pace", "behind", "ahead"),
		ChangedAt: v.Time("changed_at", in.ChangedAt),
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	put, err := a.DB.PutGoal(r.Context(), goal)
	a.emitted(r.Context(), put.Event)
	return createdIf(put.Changed, toGoal(put.Record, put.Event), err)
}
