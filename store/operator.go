package store

import (
	"encoding/json"
	"time"
)

// Role names what a user of the admin API may do.
type Role string

// Roles. Each may do what the one before may do, and more.
const (
	RoleViewer   Role = "viewer"   // reads
	RoleOperator Role = "operator" // runs the service from day to day
	RoleAdmin    Role = "admin"    // also says who else may come in
)

// May reports whether r may do what least may do. An unknown role may do nothing.
func (r Role) May(least Role) bool { return r.rank() > 0 && r.rank() >= least.rank() }

func (r Role) rank() int {
	switch r {
	case RoleViewer:
		return 1
	case RoleOperator:
		return 2
	case RoleAdmin:
		return 3
	}
	return 0
}

// Token is an admin token. Its plaintext is not stored.
type Token struct {
	ID        string    `json:"id"` // tok_
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Hash      [32]byte  `json:"-"` // SHA-256 of the plaintext
	CreatedAt time.Time `json:"created_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // not set: it does not expire
	// LastUsedAt is to the minute.
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
}

// Actor names in the audit log who makes a change.
type Actor struct {
	ID     string // of the token, or of another credential
	Name   string
	Role   Role
	Remote string // address that the request came from
}

// Audit is one entry of the audit log: a change that an operator made. Before and
// After are the record as JSON without secrets, null where there was or is none.
type Audit struct {
	ID     string          `json:"id"` // aud_
	At     time.Time       `json:"at"`
	Actor  Actor           `json:"actor"`
	Action string          `json:"action"` // such as key.rotate
	Target string          `json:"target"` // the record's id
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}
