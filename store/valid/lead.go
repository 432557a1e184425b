package valid

import (
	"errors"

	"partneredge/store"
)

// Lead refuses a lead that the origin would refuse, whatever the database. A
// node calls Lead before it acknowledges a lead, and the origin before it keeps
// one: so the origin keeps what a node has acknowledged.
func Lead(l store.Lead) error {
	if l.Environment != store.Live {
		return Errorf("leads of test keys are not kept")
	}
	if l.OutreachAllowed && l.ConsentStatus != "express_written" {
		return Errorf("outreach without consent")
	}
	return errors.Join(IDs("lead id", l.ID, "account id", l.AccountID),
		Texts("key id", l.KeyID, "first name", l.FirstName, "last name", l.LastName, "email", l.Email, "phone", l.Phone, "consent text", l.ConsentText),
		OneOf("consent status", l.ConsentStatus, "express_written", "inbound_initiated", "none"),
		Times(l.CapturedAt, l.CreatedAt))
}
