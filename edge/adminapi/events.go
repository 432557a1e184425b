package adminapi

import (
	"encoding/json"
	"slices"

	"partneredge/wasm/abi"
)

// EventTypes returns the types of events.
func EventTypes() []string {
	return slices.Clone(abi.EventTypes[:])
}

// NewCoachingRun is the request that adds the insights of one run.
type NewCoachingRun struct {
	Insights *[]NewInsight `json:"insights,omitempty"`
}

// NewInsight is an insight of a NewCoachingRun.
type NewInsight struct {
	Headline  *string `json:"headline,omitempty"`
	Detail    *string `json:"detail,omitempty"`
	CreatedAt *string `json:"created_at,omitempty"` // RFC 3339; default: the time of the request
}

// CoachingRun is the insights of a run, and the event that it emitted.
type CoachingRun struct {
	Insights []Insight `json:"insights"`
	EventID  string    `json:"event_id,omitempty"`
}

// Insight is an insight of an account.
type Insight struct {
	ID        string `json:"id"`
	AccountID string `json:"account_id"`
	Headline  string `json:"headline"`
	Detail    string `json:"detail"`
	CreatedAt Time   `json:"created_at"`
}

// NewFiring is the request that adds a firing of a sentinel.
type NewFiring struct {
	SentinelName *string         `json:"sentinel_name,omitempty"`
	TriggerData  json.RawMessage `json:"trigger_data,omitempty"` // an object of any content
	ActionTaken  *string         `json:"action_taken,omitempty"`
	TriggeredAt  *string         `json:"triggered_at,omitempty"` // RFC 3339; default: the time of the request
}

// Firing is a firing of a sentinel, and the event that it emitted.
type Firing struct {
	ID           string          `json:"id"`
	AccountID    string          `json:"account_id"`
	SentinelName string          `json:"sentinel_name"`
	TriggeredAt  Time            `json:"triggered_at"`
	TriggerData  json.RawMessage `json:"trigger_data"`
	ActionTaken  string          `json:"action_taken"`
	EventID      string          `json:"event_id,omitempty"`
}

// NewStage is the request that sets the stage of a deal.
type NewStage struct {
	Stage     *string `json:"stage,omitempty"`
	ChangedAt *string `json:"changed_at,omitempty"` // RFC 3339; default: the time of the request
}

// Deal is a deal of an account, and the event that its change emitted.
type Deal struct {
	ID        string `json:"id"`
	AccountID string `json:"account_id"`
	Stage     string `json:"stage"`
	ChangedAt Time   `json:"changed_at"`
	EventID   string `json:"event_id,omitempty"`
}

// NewContact is the request that adds a contact with a client.
type NewContact struct {
	ClientID   *string `json:"client_id,omitempty"`
	Channel    *string `json:"channel,omitempty"`     // phone, email or sms
	OccurredAt *string `json:"occurred_at,omitempty"` // RFC 3339; default: the time of the request
}

// Contact is a contact with a client, and the event that it emitted.
type Contact struct {
	ID         string `json:"id"`
	AccountID  string `json:"account_id"`
	ClientID   string `json:"client_id"`
	Channel    string `json:"channel"`
	OccurredAt Time   `json:"occurred_at"`
	EventID    string `json:"event_id,omitempty"`
}

// NewPace is the request that sets the pace of a goal.
type NewPace struct {
	Pace      *string `json:"pace,omitempty"`       // on_pace, behind or ahead
	ChangedAt *string `json:"changed_at,omitempty"` // RFC 3339; default: the time of the request
}

// Goal is a goal of an account, and the event that its change emitted.
type Goal struct {
	ID        string `json:"id"`
	AccountID string `json:"account_id"`
	Pace      string `json:"pace"`
	ChangedAt Time   `json:"changed_at"`
	EventID   string `json:"event_id,omitempty"`
}
