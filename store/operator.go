package store

import (
	"encoding/json"
	"time"
)

// Role of who uses the admin API.
type Role string

// Roles, each of which may all that the one before may.
const (
	RoleViewer   Role = "viewer"   // reads
	RoleOperator Role = "operator" // runs the service from day to day
	RoleAdmin    Role = "admin"    // also says who else may come in
)

// May tells whether r takes in least. An unknown role takes in nothing.
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

// Token lets somebody use the admin API. Its plaintext nobody keeps.
type Token struct {
	ID        string    `json:"id"` // tok_
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Hash      [32]byte  `json:"-"` // SHA-256 of the plaintext
	CreatedAt time.Time `json:"created_at"`
	RevokedAt time.Time `json:"revoked_at,omitzero"`
}

// Actor is who makes a change, as the audit log names them.
type Actor struct {
	ID     string // of the token, or what else lets them in
	Name   string
	Role   Role
	Remote string // address that the request came from
}

// Audit is one entry of the audit log: what an operator changed. Before and
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
