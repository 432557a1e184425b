// Package sandboxctl lets whoever started a program with a world in memory change
// that world while it runs: make accounts, keys and data, look at what was kept,
// stop the clock and move it. Commands come in on one stream and answers go out
// on another, each one JSON object on a line, so the program's standard input
// and output serve. Nobody else can reach those.
//
//	{"do":"account","name":"Lima Realty","live":true,"email":"ana@example.com","agent":"Ana Lima"}
//	{"id":"acc_01jxt21q00e6f8c9y7dcdzp7x3"}
//	{"do":"key","account":"acc_01jxt21q00e6f8c9y7dcdzp7x3","environment":"live","scopes":["read:agent"],"rate_limit":100}
//	{"key":"svc_live_…"}
//	{"do":"advance","milliseconds":60000}
//	{}
//
// What cannot be done is answered with {"error":"…"}.
package sandboxctl

import (
	"encoding/json"
	"time"
)

// Command is one line to the program. Do says what it is to do, and which
// fields count:
//
//	account        Name, Live, Email, Agent -> ID
//	key            Account, Environment ("live", "test"), Scopes, RateLimit a
//	               minute, Allowlist (networks in CIDR form), State -> Key
//	revoke         Key
//	insights       Account, Insights
//	firings        Account, Firings
//	leads          Account -> Leads
//	subscriptions  Account -> Subscriptions
//	clock          At: the clock is set to it, and stands still from then on
//	advance        Milliseconds, by which the clock moves on
//	outage         On: what needs the origin fails from then on, or no longer
type Command struct {
	Do string `json:"do"`

	Name  string `json:"name,omitempty"`
	Live  bool   `json:"live,omitempty"` // activation mode "live" rather than "setup"
	Email string `json:"email,omitempty"`
	Agent string `json:"agent,omitempty"` // full name

	Account     string   `json:"account,omitempty"`
	Environment string   `json:"environment,omitempty"`
	Scopes      []string `json:"scopes,omitempty"`
	RateLimit   int      `json:"rate_limit,omitempty"`
	Allowlist   []string `json:"allowlist,omitempty"`
	State       State    `json:"state,omitempty"`
	Key         string   `json:"key,omitempty"`

	Insights []Insight `json:"insights,omitempty"`
	Firings  []Firing  `json:"firings,omitempty"`

	At           time.Time `json:"at,omitzero"`
	Milliseconds int64     `json:"milliseconds,omitempty"`
	On           bool      `json:"on,omitempty"`
}

// State of a key.
type State string

// States. A rotated key is good for 7 days more when it is in grace.
const (
	Active       State = ""
	InGrace      State = "in_grace"
	GraceExpired State = "grace_expired"
	Expired      State = "expired"
	Revoked      State = "revoked"
)

// Insight to be made.
type Insight struct {
	Headline string    `json:"headline"`
	Detail   string    `json:"detail"`
	Created  time.Time `json:"created_at,omitzero"` // now when left out
}

// Firing to be made.
type Firing struct {
	Name      string          `json:"sentinel_name"`
	Action    string          `json:"action_taken"`
	Triggered time.Time       `json:"triggered_at,omitzero"` // now when left out
	Data      json.RawMessage `json:"trigger_data"`
}

// Answer is one line from the program.
type Answer struct {
	Error         string         `json:"error,omitempty"`
	ID            string         `json:"id,omitempty"`
	Key           string         `json:"key,omitempty"` // plaintext
	Leads         []Lead         `json:"leads,omitempty"`
	Subscriptions []Subscription `json:"subscriptions,omitempty"`
}

// Lead as it was kept.
type Lead struct {
	ID            string    `json:"id"`
	FirstName     string    `json:"first_name"`
	LastName      string    `json:"last_name,omitempty"`
	Email         string    `json:"email,omitempty"`
	Phone         string    `json:"phone,omitempty"`
	ConsentStatus string    `json:"consent_status"`
	ConsentText   string    `json:"consent_text,omitempty"`
	Captured      time.Time `json:"captured_at,omitzero"`
	Environment   string    `json:"environment"`
}

// Subscription as it was kept.
type Subscription struct {
	ID          string   `json:"id"`
	TargetURL   string   `json:"target_url"`
	Environment string   `json:"environment"`
	Events      []string `json:"events"`
	Revoked     bool     `json:"revoked"`
}

// MaxLine is the most bytes that a line may have.
const MaxLine = 1 << 20
