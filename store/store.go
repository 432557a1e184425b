// Package store declares the records that the service keeps and the kinds of
// error of its stores: store/local on a node, store/central at the origin.
//
// Times are UTC with microseconds; the zero time means "not set".
package store

import (
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"partneredge/wasm/abi"
)

// Kinds of error. A store wraps them with what it tried.
var (
	ErrNotFound    = errors.New("not found")
	ErrConflict    = errors.New("conflict")         // the record's state, or what has the id already, does not allow it
	ErrLimit       = errors.New("limit reached")    // a cap of the account
	ErrInvalid     = errors.New("invalid")          // a value the store cannot hold
	ErrUnavailable = errors.New("unavailable")      // try again later
	ErrRefused     = errors.New("refused by guard") // a webhook target that may not be called
)

// Mode is the mode of an account. Events of an account that is not live are
// silenced.
type Mode string

// Modes.
const (
	ModeSetup Mode = "setup" // default
	ModeLive  Mode = "live"
)

// Environment is that of a key and of everything made with it.
type Environment string

// Environments.
const (
	Live Environment = "live"
	Test Environment = "test"
)

// Scopes a key can carry.
const (
	ScopeReadAgent     = abi.ScopeReadAgent
	ScopeReadCoaching  = abi.ScopeReadCoaching
	ScopeReadSentinels = abi.ScopeReadSentinels
	ScopeWriteWebhooks = abi.ScopeWriteWebhooks
	ScopeWriteLeads    = abi.ScopeWriteLeads
)

// Account is a partner's account and the agent who owns it.
type Account struct {
	ID        string    `json:"id"` // acc_
	Name      string    `json:"name"`
	Mode      Mode      `json:"activation_mode"`
	Agent     Agent     `json:"agent"`
	CreatedAt time.Time `json:"created_at"`
}

// Agent is the person who owns an account.
type Agent struct {
	ID       string    `json:"id"` // agt_
	Email    string    `json:"email"`
	FullName string    `json:"full_name"`
	JoinedAt time.Time `json:"joined_at"`
}

// Key is an API key. Its plaintext is not stored.
type Key struct {
	ID          string         `json:"id"` // key_
	AccountID   string         `json:"account_id"`
	Hash        [32]byte       `json:"hash,omitzero"` // SHA-256 of the plaintext
	Environment Environment    `json:"environment"`
	Scopes      []string       `json:"scopes"`
	Allowlist   []netip.Prefix `json:"ip_allowlist"` // empty: any address
	RateLimit   int            `json:"rate_limit"`   // requests a minute
	Label       string         `json:"label"`
	CreatedAt   time.Time      `json:"created_at"`
	ExpiresAt   time.Time      `json:"expires_at"`           // hard expiry
	GraceUntil  time.Time      `json:"grace_until,omitzero"` // set by rotation
	RevokedAt   time.Time      `json:"revoked_at,omitzero"`  // by an operator, or with its account
	SuccessorID string         `json:"successor_id,omitempty"`
}

// Insight is a coaching insight. CreatedAt is unique within the account.
type Insight struct {
	ID        string    `json:"id"` // ins_
	AccountID string    `json:"account_id"`
	Headline  string    `json:"headline"`
	Detail    string    `json:"detail"`
	CreatedAt time.Time `json:"created_at"`
}

// Firing is one firing of a sentinel. TriggeredAt is unique within the account.
type Firing struct {
	ID          string          `json:"id"` // fir_
	AccountID   string          `json:"account_id"`
	Name        string          `json:"sentinel_name"`
	TriggeredAt time.Time       `json:"triggered_at"`
	Data        json.RawMessage `json:"trigger_data"` // an object
	Action      string          `json:"action_taken"`
}

// Deal is the stage of a deal. Its id is the caller's.
type Deal struct {
	ID        string    `json:"id"`
	AccountID string    `json:"account_id"`
	Stage     string    `json:"stage"`
	ChangedAt time.Time `json:"changed_at"`
}

// Contact is one entry of the contact log.
type Contact struct {
	ID         string    `json:"id"` // con_
	AccountID  string    `json:"account_id"`
	ClientID   string    `json:"client_id"`
	Channel    string    `json:"channel"` // phone, email, sms
	OccurredAt time.Time `json:"occurred_at"`
}

// Goal is the pace of a goal. Its id is the caller's.
type Goal struct {
	ID        string    `json:"id"`
	AccountID string    `json:"account_id"`
	Pace      string    `json:"pace"` // on_pace, behind, ahead
	ChangedAt time.Time `json:"changed_at"`
}

// Lead is a lead that a partner pushed.
type Lead struct {
	ID              string      `json:"id"` // lead_
	AccountID       string      `json:"account_id"`
	KeyID           string      `json:"key_id"`
	Environment     Environment `json:"environment"`
	FirstName       string      `json:"first_name"`
	LastName        string      `json:"last_name"`
	Email           string      `json:"email"`
	Phone           string      `json:"phone"`
	ConsentStatus   string      `json:"consent_status"`
	ConsentText     string      `json:"consent_text,omitempty"`
	CapturedAt      time.Time   `json:"captured_at,omitzero"`
	OutreachAllowed bool        `json:"outreach_allowed"` // only with express_written
	CreatedAt       time.Time   `json:"created_at"`
}

// Tombstone names a lead or an account that was deleted, so that it does not come back.
type Tombstone struct {
	ID        string    `json:"id"` // acc_; qtn_ for a lead as the origin refused it; all others are leads'
	DeletedAt time.Time `json:"deleted_at"`
}

// AcceptedLead is a lead as a node keeps it and hands it over.
type AcceptedLead struct {
	Lead
	// KeyHash is the SHA-256 of the key that the lead was pushed with: the proof that
	// the node has seen that key. Nodes before wire version 2 kept none.
	KeyHash []byte `json:"key_hash,omitempty"`
}

// Subscription is a partner's subscription to events.
type Subscription struct {
	ID          string      `json:"id"` // whs_
	AccountID   string      `json:"account_id"`
	KeyID       string      `json:"key_id"`
	Environment Environment `json:"environment"`
	TargetURL   string      `json:"target_url"`
	Events      []string    `json:"events"`
	Description *string     `json:"description"`
	Secret      string      `json:"secret"` // 64 hex characters; "" where it is read, but for the repetition of its creation
	CreatedAt   time.Time   `json:"created_at"`
	RevokedAt   time.Time   `json:"revoked_at,omitzero"`
	FailingFrom time.Time   `json:"failing_from,omitzero"` // when the first of the failures since the last success was
}

// FailingLong is the time after which a failing endpoint is logged and marked. It is not
// revoked: only its partner knows whether it is still wanted.
const FailingLong = 5 * 24 * time.Hour

// Event types.
const (
	EventInsightCreated  = abi.EventInsightCreated
	EventSentinelFired   = abi.EventSentinelFired
	EventDealChanged     = abi.EventDealChanged
	EventClientContacted = abi.EventClientContacted
	EventGoalChanged     = abi.EventGoalChanged
)

// Event is an event of an account. Body is the whole envelope, marshalled once.
type Event struct {
	ID        string          `json:"id"` // evt_
	AccountID string          `json:"account_id"`
	Type      string          `json:"type"`
	CreatedAt time.Time       `json:"created_at"`
	Silenced  bool            `json:"silenced"` // the account was not live
	Body      json.RawMessage `json:"body"`
}

// State is the state of a delivery.
type State string

// States of a delivery. StatePending becomes one of the others by itself. An operator's
// retry makes each of the others pending again; a recovery StateDead alone.
const (
	StatePending   State = "pending"
	StateDelivered State = "delivered"
	StateDead      State = "dead"      // its attempts are used up, or it was given up after three days
	StateCancelled State = "cancelled" // its subscription was revoked, or its account left live mode
)

// Delivery is the delivery of one event to one subscription. Deliveries are the
// queue and the log at once.
type Delivery struct {
	ID             string    `json:"id"` // dlv_, of the delivery; each attempt has its own
	EventID        string    `json:"event_id"`
	EventType      string    `json:"event_type"`
	SubscriptionID string    `json:"subscription_id"`
	AccountID      string    `json:"account_id"`
	State          State     `json:"state"`
	Attempts       int       `json:"attempts"` // attempts made
	NextAt         time.Time `json:"next_at,omitzero"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// Attempt is one attempt of a delivery, keyed by (event, subscription, number).
type Attempt struct {
	ID         string            `json:"id"` // dlv_, sent as x-svc-delivery-id
	DeliveryID string            `json:"delivery_id"`
	Number     int               `json:"number"` // from 1
	StartedAt  time.Time         `json:"started_at"`
	Latency    time.Duration     `json:"latency_ns"`
	Status     int               `json:"status"`          // 0 when no answer came
	Headers    map[string]string `json:"request_headers"` // as sent
	Excerpt    string            `json:"response_excerpt"`
	Error      string            `json:"error,omitempty"`
}

// Tried is an attempt that has just ended, for operators who watch deliveries.
type Tried struct {
	SubscriptionID string
	TargetURL      string
	EventID        string
	EventType      string
	State          State     // of the delivery, after the attempt
	NextAt         time.Time // of a pending delivery
	Attempt        Attempt   // with the headers as sent
}

// Node is an enrolled regional node.
type Node struct {
	ID         string    `json:"id"` // node_
	Name       string    `json:"name"`
	Region     string    `json:"region"`
	PublicKey  string    `json:"public_key"` // the nkey that its credentials sign with
	CreatedAt  time.Time `json:"created_at"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	LastSeenAt time.Time `json:"last_seen_at,omitzero"`
	Version    string    `json:"version,omitempty"`
	// WireVersion is the version of messages that the node was enrolled with or has
	// spoken since: an earlier one is not believed any more. 0: enrolled before it
	// was noted.
	WireVersion int `json:"wire_version,omitempty"`
}

// RegionServer is an enrolled NATS server of a region, a leaf of the origin's.
type RegionServer struct {
	ID        string    `json:"id"`     // reg_
	Region    string    `json:"region"` // "" of credentials that an earlier program made for all regions
	PublicKey string    `json:"public_key"`
	SystemKey string    `json:"system_key"` // of its user in the system account
	CreatedAt time.Time `json:"created_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// ChangeKind names the kind of record that a Change concerns.
type ChangeKind string

// Kinds of change, each with what Ref is.
const (
	ChangeKey      ChangeKind = "key"      // the key's id
	ChangeProfile  ChangeKind = "profile"  // the account's id
	ChangeInsights ChangeKind = "insights" // the account's id
	ChangeFirings  ChangeKind = "firings"  // the account's id
)

// Change is a change of a record that a node may hold. It is numbered in the
// transaction that made it, and numbers rise by one in the order of commit. It
// names the record and does not contain it: a node that holds the record asks.
type Change struct {
	Seq  int64      `json:"seq"`
	Kind ChangeKind `json:"kind"`
	Ref  string     `json:"ref"`
	Gone bool       `json:"gone,omitempty"` // a key is revoked, which no node must serve until it has asked, or an account deleted
}

// Span bounds times: at Since or later, before Until. A zero time is no bound.
type Span struct {
	Since, Until time.Time
}

// MaxPage is the most records of a Page.
const MaxPage = 200

// Page is a page of a list, newest first. Limit 0 means 50, the most is MaxPage. Cursor
// is the NextCursor of the page before, "" for the first.
type Page struct {
	Limit  int
	Cursor string
}
