package localwebhook

import (
	"time"

	"partneredge/edge/webhook"
	"partneredge/store"
	"partneredge/wasm/abi"
	"partneredge/wasm/event"
)

// samples returns the data of an example of each event of the contract, as of a time.
func samples() map[string]func(at time.Time) any {
	return map[string]func(at time.Time) any{
		abi.EventInsightCreated: func(at time.Time) any {
			return event.Insight{InsightID: store.NewID("ins", at), Headline: "Call back within five minutes", CreatedAt: event.Time(at)}
		},
		abi.EventSentinelFired: func(at time.Time) any {
			return event.Firing{FiringID: store.NewID("fir", at), SentinelName: "stale_lead", TriggeredAt: event.Time(at), ActionTaken: "task_created"}
		},
		abi.EventDealChanged: func(at time.Time) any {
			return event.Deal{DealID: "deal-1", FromStage: "offer", ToStage: "under_contract", ChangedAt: event.Time(at)}
		},
		abi.EventClientContacted: func(at time.Time) any {
			return event.Contact{ContactID: store.NewID("con", at), ClientID: "client-7", Channel: "phone", OccurredAt: event.Time(at)}
		},
		abi.EventGoalChanged: func(at time.Time) any {
			return event.Goal{GoalID: "goal-2026", Pace: "behind", PreviousPace: "on_pace", ChangedAt: event.Time(at)}
		},
	}
}

// Sample returns a new event of a type with example data; known is false if there is no
// such event type.
func Sample(kind, account string, at time.Time) (m webhook.Message, known bool, err error) {
	data, known := samples()[kind]
	if !known {
		return m, false, nil
	}
	m = webhook.Message{EventID: store.NewID("evt", at), EventType: kind}
	m.Body, err = event.Body(event.Head{ID: m.EventID, Type: kind, AccountID: account, CreatedAt: at}, data(at))
	return m, true, err
}
