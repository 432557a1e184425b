package sandboxctl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/event"
	"partneredge/wasm/fake"
	"partneredge/wasm/handlers/jsonbody"
)

// emit adds an event to an answer.
func (c Controller) emit(a *Answer, account, kind string, data any) error {
	e, err := c.Backend.Emit(account, kind, data)
	if err != nil {
		return err
	}
	out := Event{ID: e.ID, Type: e.Type, Body: e.Body, Deliveries: []Delivery{}}
	for _, s := range e.Subscriptions {
		out.Deliveries = append(out.Deliveries, Delivery{Subscription: s.ID, TargetURL: s.Target, Secret: s.Secret, PreviousSecret: c.previous(s)})
	}
	a.Events = append(a.Events, out)
	return nil
}

// previous returns the secret that signs beside a subscription's own, "" if none does.
func (c Controller) previous(s fake.Subscription) string {
	if c.Clock.Now() >= s.PreviousUntil {
		return ""
	}
	return s.Previous
}

// addInsights adds the insights of one coaching run, whose event is that of the newest.
func (c Controller) addInsights(command Command, a *Answer) error {
	for _, it := range command.Insights {
		if blank(it.Headline) {
			return errors.New("headline is missing")
		}
	}
	var newest abi.Insight
	for _, it := range command.Insights {
		added, err := c.Backend.AddInsight(command.Account, abi.Insight{Headline: it.Headline, Detail: it.Detail, Created: micros(it.Created)})
		if err != nil {
			return err
		}
		if added.Created > newest.Created {
			newest = added
		}
	}
	if newest.ID == "" {
		return nil
	}
	return c.emit(a, command.Account, abi.EventInsightCreated, event.Insight{
		InsightID: newest.ID, Headline: newest.Headline, CreatedAt: event.Time(time.UnixMicro(newest.Created)),
	})
}

func (c Controller) addFirings(command Command, a *Answer) error {
	for _, it := range command.Firings {
		if blank(it.Name) || blank(it.Action) {
			return errors.New("sentinel_name or action_taken is missing")
		}
		if !jsonbody.IsFreeForm(it.Data) {
			return errors.New("trigger_data is no object that every reader of JSON can read")
		}
	}
	for _, it := range command.Firings {
		added, err := c.Backend.AddFiring(command.Account, abi.Firing{Name: it.Name, Action: it.Action, Triggered: micros(it.Triggered), Data: it.Data})
		if err != nil {
			return err
		}
		if err := c.emit(a, command.Account, abi.EventSentinelFired, event.Firing{
			FiringID: added.ID, SentinelName: added.Name, TriggeredAt: event.Time(time.UnixMicro(added.Triggered)), ActionTaken: added.Action,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c Controller) addContact(command Command, a *Answer) error {
	if !slices.Contains([]string{"phone", "email", "sms"}, command.Channel) {
		return fmt.Errorf("channel %q is none of phone, email and sms", command.Channel)
	}
	if blank(command.Client) {
		return errors.New("client is missing")
	}
	return c.emit(a, command.Account, abi.EventClientContacted, event.Contact{
		ContactID: c.Backend.NewID("con"), ClientID: command.Client, Channel: command.Channel, OccurredAt: c.now(),
	})
}

// setDeal moves a deal. Its first stage emits nothing, nor does the same stage again.
func (c Controller) setDeal(command Command, a *Answer) error {
	if blank(command.ID) || blank(command.Stage) {
		return errors.New("id or stage is missing")
	}
	from, err := c.Backend.SetDeal(command.Account, command.ID, command.Stage)
	if err != nil || from == "" || from == command.Stage {
		return err
	}
	return c.emit(a, command.Account, abi.EventDealChanged, event.Deal{
		DealID: command.ID, FromStage: from, ToStage: command.Stage, ChangedAt: c.now(),
	})
}

// setGoal sets a goal's pace, by the rules of setDeal.
func (c Controller) setGoal(command Command, a *Answer) error {
	if blank(command.ID) {
		return errors.New("id is missing")
	}
	if !slices.Contains([]string{"on_pace", "behind", "ahead"}, command.Pace) {
		return fmt.Errorf("pace %q is none of on_pace, behind and ahead", command.Pace)
	}
	from, err := c.Backend.SetGoal(command.Account, command.ID, command.Pace)
	if err != nil || from == "" || from == command.Pace {
		return err
	}
	return c.emit(a, command.Account, abi.EventGoalChanged, event.Goal{
		GoalID: command.ID, Pace: command.Pace, PreviousPace: from, ChangedAt: c.now(),
	})
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

func (c Controller) now() string { return event.Time(time.UnixMicro(c.Clock.Now())) }
