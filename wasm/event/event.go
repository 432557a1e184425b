// Package event writes the bodies of webhook deliveries: the envelope of an event, and
// the data of each type. The origin's store, the sandbox program and `edge trigger` all
// write them here, so a partner's test sees what the service sends.
package event

import (
	"encoding/json"
	"fmt"
	"time"
)

// Data of each type of event. Times are as Time writes them.
type (
	// Insight is the data of abi.EventInsightCreated.
	Insight struct {
		InsightID string `json:"insight_id"`
		Headline  string `json:"headline"`
		CreatedAt string `json:"created_at"`
	}
	// Firing is the data of abi.EventSentinelFired.
	Firing struct {
		FiringID     string `json:"firing_id"`
		SentinelName string `json:"sentinel_name"`
		TriggeredAt  string `json:"triggered_at"`
		ActionTaken  string `json:"action_taken"`
	}
	// Deal is the data of abi.EventDealChanged.
	Deal struct {
		DealID    string `json:"deal_id"`
		FromStage string `json:"from_stage"`
		ToStage   string `json:"to_stage"`
		ChangedAt string `json:"changed_at"`
	}
	// Contact is the data of abi.EventClientContacted.
	Contact struct {
		ContactID  string `json:"contact_id"`
		ClientID   string `json:"client_id"`
		Channel    string `json:"channel"`
		OccurredAt string `json:"occurred_at"`
	}
	// Goal is the data of abi.EventGoalChanged.
	Goal struct {
		GoalID       string `json:"goal_id"`
		Pace         string `json:"pace"`
		PreviousPace string `json:"previous_pace"`
		ChangedAt    string `json:"changed_at"`
	}
)

// Time writes t in ISO 8601 in UTC, with all six digits of the microseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// Head names an event.
type Head struct {
	ID        string // evt_…, the same in each delivery
	Type      string
	AccountID string
	CreatedAt time.Time
}

// Body returns the envelope of an event as JSON. data is one of the types above.
func Body(h Head, data any) ([]byte, error) {
	body, err := json.Marshal(struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		AccountID string `json:"account_id"`
		CreatedAt string `json:"created_at"`
		Data      any    `json:"data"`
	}{h.ID, h.Type, h.AccountID, Time(h.CreatedAt), data})
	if err != nil {
		return nil, fmt.Errorf("write envelope: %w", err)
	}
	return body, nil
}
