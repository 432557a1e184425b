package store

import "time"

// QuarantineState is the state of a lead in the quarantine.
type QuarantineState string

// States of a lead in the quarantine. Only QuarantineWaiting changes.
const (
	QuarantineWaiting   QuarantineState = "waiting"
	QuarantineReleased  QuarantineState = "released"  // it is a lead now
	QuarantineDiscarded QuarantineState = "discarded" // an operator gave it up
)

// QuarantinedLead is a lead that a node acknowledged and the origin refused. It
// waits at the origin for an operator, who mends and releases it or discards it.
type QuarantinedLead struct {
	ID         string          `json:"id"`         // qtn_
	LeadID     string          `json:"lead_id"`    // with the next two as far as they can be read
	AccountID  string          `json:"account_id"` //
	KeyID      string          `json:"key_id"`     //
	NodeID     string          `json:"node_id"`    // which handed it over
	Reason     string          `json:"reason"`
	State      QuarantineState `json:"state"`
	Size       int64           `json:"size"` // bytes of the body as it was received
	Body       []byte          `json:"-"`    // as it was received; in lists, and when it waits no more, empty
	ReceivedAt time.Time       `json:"received_at"`
	SettledAt  time.Time       `json:"settled_at,omitzero"`
}
