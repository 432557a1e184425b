package console

import (
	"net/url"
	"slices"
	"strings"

	"partneredge/edge/adminapi"
)

// mendField is a field of the form that mends a lead.
type mendField struct {
	Name, Label, Value string
	Lines              bool // its line ends matter
	set                func(*adminapi.MendedLead, *string)
}

// Browsers send every line end of a text area as CR LF, and none of an input.
var (
	lineEnds   = strings.NewReplacer("\r\n", "\n", "\r", "\n")
	noLineEnds = strings.NewReplacer("\r", "", "\n", "")
)

// typed returns a value of the field without what browsers do to line ends.
func (f mendField) typed(value string) string {
	if f.Lines {
		return lineEnds.Replace(value)
	}
	return noLineEnds.Replace(value)
}

// mendFields returns the fields of the form, with the values of a lead.
func mendFields(l adminapi.MendedLead) []mendField {
	field := func(name, label string, of func(*adminapi.MendedLead) **string) mendField {
		f := mendField{Name: name, Label: label, Lines: name == "consent_text", set: func(l *adminapi.MendedLead, value *string) { *of(l) = value }}
		if have := *of(&l); have != nil {
			f.Value = *have
		}
		return f
	}
	return []mendField{
		field("account_id", "Account", func(l *adminapi.MendedLead) **string { return &l.AccountID }),
		field("first_name", "First name", func(l *adminapi.MendedLead) **string { return &l.FirstName }),
		field("last_name", "Last name", func(l *adminapi.MendedLead) **string { return &l.LastName }),
		field("email", "E-mail", func(l *adminapi.MendedLead) **string { return &l.Email }),
		field("phone", "Phone", func(l *adminapi.MendedLead) **string { return &l.Phone }),
		field("consent_status", "Consent", func(l *adminapi.MendedLead) **string { return &l.ConsentStatus }),
		field("consent_text", "Text of consent", func(l *adminapi.MendedLead) **string { return &l.ConsentText }),
		field("captured_at", "Consent given at", func(l *adminapi.MendedLead) **string { return &l.CapturedAt }),
		field("id", "Lead", func(l *adminapi.MendedLead) **string { return &l.ID }),
		field("key_id", "Key", func(l *adminapi.MendedLead) **string { return &l.KeyID }),
		field("environment", "Environment", func(l *adminapi.MendedLead) **string { return &l.Environment }),
		field("created_at", "Created at", func(l *adminapi.MendedLead) **string { return &l.CreatedAt }),
	}
}

// quarantined reads one lead of the quarantine.
func quarantined(v *visit) (view, error) {
	var data struct {
		Lead    adminapi.QuarantinedLead
		Fields  []mendField
		Allowed string
	}
	err := v.get("/quarantine/"+v.id(), &data.Lead)
	if l := data.Lead.Lead; l != nil {
		data.Fields = mendFields(*l)
		if l.OutreachAllowed != nil && *l.OutreachAllowed {
			data.Allowed = "true"
		}
	}
	return view{page: "quarantined", Title: "Quarantined lead", Section: "quarantine", Data: data}, err
}

// release keeps a lead of the quarantine as it was received, but for the fields
// that the form has other than they were shown.
func release(v *visit) (notice, string, error) {
	var q adminapi.QuarantinedLead
	if err := v.get("/quarantine/"+v.id(), &q); err != nil {
		return notice{}, Path + "quarantine", err
	}
	var shown, in adminapi.MendedLead
	if q.Lead != nil {
		shown = *q.Lead
	}
	for _, f := range mendFields(shown) {
		value := f.typed(v.PostForm.Get(f.Name))
		if v.PostForm.Has(f.Name) && value != f.typed(f.Value) {
			f.set(&in, &value)
		}
	}
	allowed := v.PostForm.Get("outreach_allowed") == "true"
	if v.PostForm.Has("outreach_allowed") && (shown.OutreachAllowed == nil || allowed != *shown.OutreachAllowed) {
		in.OutreachAllowed = &allowed
	}
	if err := v.post("/quarantine/"+v.id()+"/release", in, nil); err != nil {
		return notice{}, Path + "quarantine/" + v.id(), err
	}
	return notice{Text: "Lead released: it is with its account."}, Path + "quarantine", nil
}

// discard gives a lead of the quarantine up.
func discard(v *visit) (notice, string, error) {
	return notice{Text: "Lead discarded."}, Path + "quarantine", v.call("DELETE", "/quarantine/"+v.id(), nil, nil)
}

// sent returns what a form that failed had in a field, or else the value that the
// record has.
func sent(v view, name, value string) string {
	if form := refusedForm(v, name); form != nil {
		return form.Get(name)
	}
	return value
}

// refusedForm returns the values of the form that failed, nil where it has no such field.
func refusedForm(v view, name string) url.Values {
	for _, n := range v.Notices {
		if n.Form.Has(name) {
			return n.Form
		}
	}
	return nil
}

// failed reports whether a form that has a field of this name failed.
func failed(v view, name string) bool { return refusedForm(v, name) != nil }

// checked reports whether a form that failed had a box of some checked, or else what
// they are at first. having is a field that the form always has.
func checked(v view, having, name, value string, first bool) bool {
	form := refusedForm(v, having)
	if form == nil {
		return first
	}
	return slices.Contains(form[name], value)
}
