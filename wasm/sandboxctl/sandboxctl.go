// Package sandboxctl defines the commands that change the data of a running
// sandbox program: they create accounts, keys and data, list what was kept, and
// stop and move the clock. A command is one line of JSON on the program's
// standard input, which only the process that started it can write to, and the
// answer is one line of JSON on its standard output:
//
//	{"do":"account","name":"Lima Realty","live":true,"email":"ana@example.com","agent":"Ana Lima"}
//	{"id":"acc_01jxt21q00e6f8c9y7dcdzp7x3"}
//	{"do":"key","account":"acc_01jxt21q00e6f8c9y7dcdzp7x3","environment":"live","scopes":["read:agent"],"rate_limit":100}
//	{"key":"svc_live_…"}
//	{"do":"advance","milliseconds":60000}
//	{}
//
// The answer to a command that failed is {"error":"…"}.
package sandboxctl

import (
	"encoding/json"
	"errors"
	"io"
	"time"
)

// Hello is the first line of a program that takes commands, before any answer.
type Hello struct {
	URL     string `json:"url"`
	Account string `json:"account_id"`
	Live    string `json:"live_key"`
	Test    string `json:"test_key"`
}

// Command is one line to the program. Do names the command, and so decides which
// other fields are used and which field of the answer is set:
//
//	account        Name, Live, Email, Agent -> ID
//	key            Account, Environment ("live", "test"), Scopes, RateLimit a
//	               minute, Allowlist (addresses and networks), State -> Key
//	rotate         Key, which is valid for 7 more days -> Key: its successor
//	revoke         Key
//	insights       Account, Insights, of one coaching run -> Events: of the newest
//	firings        Account, Firings -> Events
//	contact        Account, Client, Channel ("phone", "email", "sms") -> Events
//	deal           Account, ID, Stage -> Events, but for a deal's first stage
//	goal           Account, ID, Pace ("on_pace", "behind", "ahead") -> Events, but
//	               for a goal's first pace
//	leads          Account -> Leads
//	subscriptions  Account -> Subscriptions
//	rotate_secret  Account, ID of a subscription, whose secret signs for a day
//	               as well -> Secret: the new one
//	clock          At: stops the clock at this time
//	advance        Milliseconds: moves the clock forward
//	outage         On: starts (true) or ends (false) an outage of the origin
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
	ID       string    `json:"id,omitempty"`
	Stage    string    `json:"stage,omitempty"`
	Pace     string    `json:"pace,omitempty"`
	Client   string    `json:"client,omitempty"`
	Channel  string    `json:"channel,omitempty"`

	At           time.Time `json:"at,omitzero"`
	Milliseconds int64     `json:"milliseconds,omitempty"`
	On           bool      `json:"on,omitempty"`
}

// ReadCommand reads one command, to the end of r. It refuses fields that no command has.
func ReadCommand(r io.Reader) (command Command, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err = d.Decode(&command); err != nil {
		return command, err
	}
	if _, err = d.Token(); err == io.EOF {
		return command, nil
	}
	return command, errors.New("more follows after the command")
}

// State is the state of a key.
type State string

// States of a key.
const (
	Active       State = ""
	InGrace      State = "in_grace"      // rotated, and valid for 7 more days
	GraceExpired State = "grace_expired" // rotated, and no longer valid
	Expired      State = "expired"
	Revoked      State = "revoked"
)

// Insight is a coaching insight to be created.
type Insight struct {
	Headline string    `json:"headline"`
	Detail   string    `json:"detail"`
	Created  time.Time `json:"created_at,omitzero"` // default: now
}

// Firing is a firing of a sentinel to be created.
type Firing struct {
	Name      string          `json:"sentinel_name"`
	Action    string          `json:"action_taken"`
	Triggered time.Time       `json:"triggered_at,omitzero"` // default: now
	Data      json.RawMessage `json:"trigger_data"`          // an object
}

// Answer is one line from the program, the answer to one command.
type Answer struct {
	Error         string         `json:"error,omitempty"`
	ID            string         `json:"id,omitempty"`
	Key           string         `json:"key,omitempty"` // plaintext
	Secret        string         `json:"secret,omitempty"`
	Leads         []Lead         `json:"leads,omitempty"`
	Subscriptions []Subscription `json:"subscriptions,omitempty"`
	Events        []Event        `json:"events,omitempty"` // that the command made happen
}

// Event is an event, which the program does not deliver itself: it has no network but
// its own port.
type Event struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	Body       json.RawMessage `json:"body"` // the envelope
	Deliveries []Delivery      `json:"deliveries"`
}

// Delivery names a subscription that an event is for.
type Delivery struct {
	Subscription   string `json:"subscription"`
	TargetURL      string `json:"target_url"`
	Secret         string `json:"secret,omitempty"`          // that the delivery is signed with
	PreviousSecret string `json:"previous_secret,omitempty"` // that signs as well, after a rotation
}

// Lead is a lead that the program keeps.
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

// Subscription is a webhook subscription that the program keeps.
type Subscription struct {
	ID             string   `json:"id"`
	TargetURL      string   `json:"target_url"`
	Environment    string   `json:"environment"`
	Events         []string `json:"events"`
	Revoked        bool     `json:"revoked"`
	Secret         string   `json:"secret"`
	PreviousSecret string   `json:"previous_secret,omitempty"` // that signs as well, after a rotation
}

// MaxLine bounds a line, in bytes.
const MaxLine = 1 << 20
