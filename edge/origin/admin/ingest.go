package admin

import (
	"context"
	"fmt"
	"net/http"

	"partneredge/edge/adminapi"
	"partneredge/store"
)

// addCoachingRun takes the insights of one run. A run without any is noted
// nowhere.
func (a *api) addCoachingRun(r *http.Request) (answer, error) {
	var in adminapi.NewCoachingRun
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_coaching_run"}
	if in.Insights == nil {
		c.fail("insights", "required", "insights must be a list")
		return answer{}, c.err()
	}
	if len(*in.Insights) > maxInRun {
		c.fail("insights", "too_long", fmt.Sprintf("insights holds at most %d", maxInRun))
	}
	var insights []store.Insight
	for _, i := range *in.Insights {
		insight := store.Insight{
			Headline:  c.text("headline", i.Headline, maxHeadline),
			Detail:    c.optional("detail", i.Detail, maxDetail),
			CreatedAt: c.time("created_at", i.CreatedAt),
		}
		if i.Detail == nil {
			c.fail("detail", "required", "detail must be there")
		}
		insights = append(insights, insight)
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	added, event, err := a.DB.AddCoachingRun(r.Context(), r.PathValue("id"), insights)
	if err != nil {
		return answer{}, err
	}
	a.emitted(r.Context(), event)
	return createdIf(len(added) > 0, toCoachingRun(added, event))
}

// emitted traces an event; nil is none.
func (a *api) emitted(ctx context.Context, e *store.Event) {
	if e != nil {
		a.Tracer.Emitted(ctx, e.ID, e.Type, e.CreatedAt)
	}
}

func (a *api) addFiring(r *http.Request) (answer, error) {
	var in adminapi.NewFiring
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_sentinel_firing"}
	firing := store.Firing{
		AccountID:   r.PathValue("id"),
		Name:        c.text("sentinel_name", in.SentinelName, maxSentinel),
		Data:        c.object(freeForm, in.TriggerData),
		Action:      c.text("action_taken", in.ActionTaken, maxAction),
		TriggeredAt: c.time("triggered_at", in.TriggeredAt),
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	firing, event, err := a.DB.AddFiring(r.Context(), firing)
	if err != nil {
		return answer{}, err
	}
	a.emitted(r.Context(), event)
	return created(toFiring(firing, event))
}

func (a *api) putDeal(r *http.Request) (answer, error) {
	var in adminapi.NewStage
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_deal"}
	id := r.PathValue("deal_id")
	deal := store.Deal{
		ID:        c.id("deal_id", &id),
		AccountID: r.PathValue("id"),
		Stage:     c.text("stage", in.Stage, maxStage),
		ChangedAt: c.time("changed_at", in.ChangedAt),
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	put, err := a.DB.PutDeal(r.Context(), deal)
	if err != nil {
		return answer{}, err
	}
	a.emitted(r.Context(), put.Event)
	return createdIf(put.Changed, toDeal(put.Record, put.Event))
}

func (a *api) addContact(r *http.Request) (answer, error) {
	var in adminapi.NewContact
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_contact"}
	contact := store.Contact{
		AccountID:  r.PathValue("id"),
		ClientID:   c.id("client_id", in.ClientID),
		Channel:    c.oneOf("channel", in.Channel, "phone", "email", "sms"),
		OccurredAt: c.time("occurred_at", in.OccurredAt),
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	contact, event, err := a.DB.AddContact(r.Context(), contact)
	if err != nil {
		return answer{}, err
	}
	a.emitted(r.Context(), event)
	return created(toContact(contact, event))
}

func (a *api) putGoal(r *http.Request) (answer, error) {
	var in adminapi.NewPace
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_goal"}
	id := r.PathValue("goal_id")
	goal := store.Goal{
		ID:        c.id("goal_id", &id),
		AccountID: r.PathValue("id"),
		Pace:      c.oneOf("pace", in.Pace, "on_pace", "behind", "ahead"),
		ChangedAt: c.time("changed_at", in.ChangedAt),
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	put, err := a.DB.PutGoal(r.Context(), goal)
	if err != nil {
		return answer{}, err
	}
	a.emitted(r.Context(), put.Event)
	return createdIf(put.Changed, toGoal(put.Record, put.Event))
}
