package admin

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/valid"
)

// listQuarantine lists what waits; ?since and ?until select what came in at a time.
func (a *api) listQuarantine(r *http.Request) (answer, error) {
	span, err := spanOf(r)
	if err != nil {
		return answer{}, err
	}
	return page(r, func(p store.Page) ([]store.QuarantinedLead, string, error) {
		return a.DB.QuarantinedLeads(r.Context(), span, p)
	}, toQuarantined)
}

// readQuarantined answers with one lead of the quarantine and its body.
func (a *api) readQuarantined(r *http.Request) (answer, error) {
	q, err := a.DB.QuarantinedLead(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(toQuarantinedWithBody(q), nil)
}

// releaseQuarantined keeps the lead as it was received, but for the fields of in.
func (a *api) releaseQuarantined(r *http.Request, in adminapi.MendedLead, v *input.Validator) (answer, error) {
	q, err := a.DB.QuarantinedLead(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	if q.State != store.QuarantineWaiting {
		return answer{}, &input.Problem{Kind: input.KindConflict, Detail: "the lead is " + string(q.State) + " already"}
	}
	lead := mend(received(q), in, v)
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	if err := valid.Lead(lead); err != nil {
		reasons := strings.ReplaceAll(err.Error(), store.ErrInvalid.Error()+": ", "")
		return answer{}, &input.Problem{Kind: v.Kind, Reason: "refused", Detail: strings.ReplaceAll(reasons, "\n", "; ")}
	}
	q, err = a.DB.ReleaseLead(r.Context(), q.ID, lead)
	return ok(toQuarantined(q), err)
}

func (a *api) discardQuarantined(r *http.Request) (answer, error) {
	q, err := a.DB.DiscardLead(r.Context(), r.PathValue("id"))
	return ok(toQuarantined(q), err)
}

// received returns what is known of a quarantined lead. What a lead must have and
// this one lacks is set to what allows least.
func received(q store.QuarantinedLead) store.Lead {
	l := central.ReadLead(q.LeadID, q.Body).Lead
	l.Environment = cmp.Or(l.Environment, store.Live)
	l.ConsentStatus = cmp.Or(l.ConsentStatus, "none")
	if l.CreatedAt.IsZero() {
		l.CreatedAt = q.ReceivedAt
	}
	return l
}

// mend returns a lead with the fields of in that are set.
func mend(l store.Lead, in adminapi.MendedLead, v *input.Validator) store.Lead {
	for field, value := range map[*string]*string{
		&l.ID: in.ID, &l.AccountID: in.AccountID, &l.KeyID: in.KeyID, (*string)(&l.Environment): in.Environment,
		&l.FirstName: in.FirstName, &l.LastName: in.LastName, &l.Email: in.Email, &l.Phone: in.Phone,
		&l.ConsentStatus: in.ConsentStatus, &l.ConsentText: in.ConsentText,
	} {
		if value != nil {
			*field = *value
		}
	}
	if in.OutreachAllowed != nil {
		l.OutreachAllowed = *in.OutreachAllowed
	}
	if in.CreatedAt != nil {
		l.CreatedAt = v.Time("created_at", in.CreatedAt)
	}
	switch {
	case in.CapturedAt == nil:
	case *in.CapturedAt == "":
		l.CapturedAt = time.Time{}
	default:
		l.CapturedAt = v.Time("captured_at", in.CapturedAt)
	}
	return l
}

// toQuarantinedWithBody is toQuarantined with what was received of a lead that waits.
func toQuarantinedWithBody(q store.QuarantinedLead) adminapi.QuarantinedLead {
	v := toQuarantined(q)
	if q.State == store.QuarantineWaiting {
		v.Lead, v.Body = new(toMended(received(q))), new(strings.ToValidUTF8(string(q.Body), ""))
	}
	return v
}

func toQuarantined(q store.QuarantinedLead) adminapi.QuarantinedLead {
	return adminapi.QuarantinedLead{
		ID: q.ID, LeadID: q.LeadID, AccountID: q.AccountID, KeyID: q.KeyID, NodeID: q.NodeID, Reason: q.Reason,
		State: string(q.State), Size: q.Size, ReceivedAt: stamp(q.ReceivedAt), SettledAt: stamp(q.SettledAt),
	}
}

func toMended(l store.Lead) adminapi.MendedLead {
	text := func(t time.Time) *string {
		if t.IsZero() {
			return new("")
		}
		return new(t.UTC().Format(time.RFC3339Nano))
	}
	return adminapi.MendedLead{
		ID: &l.ID, AccountID: &l.AccountID, KeyID: &l.KeyID, Environment: (*string)(&l.Environment),
		FirstName: &l.FirstName, LastName: &l.LastName, Email: &l.Email, Phone: &l.Phone,
		ConsentStatus: &l.ConsentStatus, ConsentText: &l.ConsentText, CapturedAt: text(l.CapturedAt),
		OutreachAllowed: &l.OutreachAllowed, CreatedAt: text(l.CreatedAt),
	}
}
