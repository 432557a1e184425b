package adminapi

import (
	"encoding/json"
	"slices"
	"time"

	"partneredge/wasm/abi"
)

// NewAccount is the request that makes an account.
type NewAccount struct {
	Name           *string   `json:"name,omitempty"`
	ActivationMode *string   `json:"activation_mode,omitempty"` // live or setup; default setup
	Agent          *NewAgent `json:"agent,omitempty"`
}

// NewAgent is the agent of a NewAccount or an AccountPatch.
type NewAgent struct {
	Email    *string `json:"email,omitempty"`
	FullName *string `json:"full_name,omitempty"`
}

// AccountPatch is the request that changes the fields of an account that are set.
type AccountPatch NewAccount

// Account is an account with its agent.
type Account struct {
	ID             string `json:"id"`
	Name           string `json:"name"`
	ActivationMode string `json:"activation_mode"`
	Agent          Agent  `json:"agent"`
	CreatedAt      Time   `json:"created_at"`
}

// Agent is the person to whom an account belongs.
type Agent struct {
	ID       string `json:"id"`
	Email    string `json:"email"`
	FullName string `json:"full_name"`
	JoinedAt Time   `json:"joined_at"`
}

// Scopes returns the scopes of the partner interface. A key can have others as well,
// which the routes of modules require: x: and 1 to 40 of a to z, 0 to 9 and hyphens.
func Scopes() []string {
	return slices.Clone(abi.ScopeNames[:])
}

// Defaults of what requests leave out.
const (
	KeyLifetime   = 365 * 24 * time.Hour // of a NewKey, and of a successor
	KeyRate       = 100                  // of a NewKey, requests a minute
	KeyGrace      = 7 * 24 * time.Hour   // of a Rotation
	SecretOverlap = 24 * time.Hour       // of a SecretRotation
	ExpiresSoon   = 30 * 24 * time.Hour  // within which the keys of a list expire
	UsageDays     = 30                   // of a key's usage
)

// NewKey is the request that makes a key.
type NewKey struct {
	Environment *string  `json:"environment,omitempty"` // live or test
	Scopes      []string `json:"scopes,omitempty"`
	IPAllowlist []string `json:"ip_allowlist,omitempty"` // default: any address
	RateLimit   *int64   `json:"rate_limit,omitempty"`   // requests a minute; default 100
	ExpiresAt   *string  `json:"expires_at,omitempty"`   // RFC 3339; default: in a year
	Label       *string  `json:"label,omitempty"`
}

// Key is an API key without its plaintext, which the origin does not keep.
type Key struct {
	ID          string   `json:"id"`
	AccountID   string   `json:"account_id"`
	Environment string   `json:"environment"`
	State       string   `json:"state"` // active, in_grace, expired or revoked
	Scopes      []string `json:"scopes"`
	IPAllowlist []string `json:"ip_allowlist"`
	RateLimit   int      `json:"rate_limit"` // requests a minute
	Label       string   `json:"label"`
	CreatedAt   Time     `json:"created_at"`
	ExpiresAt   Time     `json:"expires_at"`
	GraceUntil  Time     `json:"grace_until"`
	RevokedAt   Time     `json:"revoked_at"`
	SuccessorID *string  `json:"successor_id"`
	// Usage is null in the answer to a change of the key, and where it cannot be read.
	Usage *KeyUse `json:"usage"`
	// Webhooks are, in the answer to a revocation, the active subscriptions that were
	// made with the key: they go on.
	Webhooks []Webhook `json:"webhooks,omitempty"`
}

// ErasedAccount is an account that is deleted, with how many of its records went, by
// kind.
type ErasedAccount struct {
	ID     string           `json:"id"`
	Erased map[string]int64 `json:"erased"`
}

// MintedKey is a new key with its plaintext.
type MintedKey struct {
	Key       Key    `json:"key"`
	Plaintext string `json:"plaintext"`
}

// Rotation is the request that makes the successor of a key.
type Rotation struct {
	GraceSeconds *int64 `json:"grace_seconds,omitempty"` // of the key; default a week
}

// RotatedKey is the successor of a key, and the key.
type RotatedKey struct {
	Key       Key    `json:"key"`
	Plaintext string `json:"plaintext"`
	Previous  Key    `json:"previous"`
}

// Lead is a lead as the origin keeps it.
type Lead struct {
	ID              string `json:"id"`
	AccountID       string `json:"account_id"`
	KeyID           string `json:"key_id"`
	Environment     string `json:"environment"`
	FirstName       string `json:"first_name"`
	LastName        string `json:"last_name"`
	Email           string `json:"email"`
	Phone           string `json:"phone"`
	ConsentStatus   string `json:"consent_status"`
	ConsentText     string `json:"consent_text"`
	CapturedAt      Time   `json:"captured_at"`
	OutreachAllowed bool   `json:"outreach_allowed"`
	CreatedAt       Time   `json:"created_at"`
}

// Tombstone names a lead or an account that was deleted, so that it does not come back.
type Tombstone struct {
	ID        string `json:"id"`
	DeletedAt Time   `json:"deleted_at"`
}

// NewTombstone is the request that deletes a lead or an account again, if it is there,
// and keeps it from coming back.
type NewTombstone struct {
	ID        *string `json:"id,omitempty"`
	DeletedAt *string `json:"deleted_at,omitempty"` // RFC 3339; default: the time of the request
}

// NewToken is the request that makes a token of the admin API.
type NewToken struct {
	Name *string `json:"name,omitempty"`
	Role *string `json:"role,omitempty"` // viewer, operator or admin
	// ExpiresAt is in RFC 3339; default: it does not expire.
	ExpiresAt *string `json:"expires_at,omitempty"`
}

// Token is a token of the admin API without its plaintext.
type Token struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	CreatedAt Time   `json:"created_at"`
	RevokedAt Time   `json:"revoked_at"`
	ExpiresAt Time   `json:"expires_at"`
	// LastUsedAt is to the minute.
	LastUsedAt Time `json:"last_used_at"`
}

// MintedToken is a new token with its plaintext.
type MintedToken struct {
	Token     Token  `json:"token"`
	Plaintext string `json:"plaintext"`
}

// Whoami names the holder of the token that a request carries.
type Whoami struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"`
}

// Audit is an entry of the audit log. Before and After are records, null where
// there was none.
type Audit struct {
	ID     string          `json:"id"`
	At     Time            `json:"at"`
	Actor  Actor           `json:"actor"`
	Action string          `json:"action"`
	Target string          `json:"target"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// Actor is the holder of a token, and the address from which the token was used.
type Actor struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Role   string `json:"role"`
	Remote string `json:"remote"`
}
