package adminapi

// QuarantinedLead is a lead that a node acknowledged and the origin refused. A list
// has neither Lead nor Body, and what is settled has neither any more.
type QuarantinedLead struct {
	ID         string      `json:"id"`
	LeadID     string      `json:"lead_id"` // with the next two as far as they can be read, else empty
	AccountID  string      `json:"account_id"`
	KeyID      string      `json:"key_id"`
	NodeID     string      `json:"node_id"`
	Reason     string      `json:"reason"`
	State      string      `json:"state"` // waiting, released or discarded
	Size       int64       `json:"size"`  // bytes of the body as it was received
	ReceivedAt Time        `json:"received_at"`
	SettledAt  Time        `json:"settled_at"`
	Lead       *MendedLead `json:"lead,omitempty"` // what a release without changes would keep
	Body       *string     `json:"body,omitempty"` // as it was received, without what is not UTF-8
}

// MendedLead is the request that releases a quarantined lead with the fields that
// are set in place of those that were received.
type MendedLead struct {
	ID              *string `json:"id,omitempty"`
	AccountID       *string `json:"account_id,omitempty"`
	KeyID           *string `json:"key_id,omitempty"`
	Environment     *string `json:"environment,omitempty"` // live
	FirstName       *string `json:"first_name,omitempty"`
	LastName        *string `json:"last_name,omitempty"`
	Email           *string `json:"email,omitempty"`
	Phone           *string `json:"phone,omitempty"`
	ConsentStatus   *string `json:"consent_status,omitempty"` // express_written, inbound_initiated or none
	ConsentText     *string `json:"consent_text,omitempty"`
	CapturedAt      *string `json:"captured_at,omitempty"` // RFC 3339; empty: not known
	OutreachAllowed *bool   `json:"outreach_allowed,omitempty"`
	CreatedAt       *string `json:"created_at,omitempty"` // RFC 3339
}
