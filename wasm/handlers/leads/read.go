package leads

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"partneredge/wasm/abi"
	"partneredge/wasm/handlers/jsonbody"
	"partneredge/wasm/isotime"
)

// Maximum lengths of fields, in characters (Unicode code points).
const (
	maxName    = 200
	maxEmail   = 254
	maxPhone   = 32
	maxConsent = 10_000
)

// earliestConsent is the first time that a consent may be captured at, in
// microseconds: 1970-01-02T00:00:00Z. Stores read 0, the epoch, as "not set",
// and programs that know no time often write the epoch in their own time zone.
const earliestConsent = 24 * 3600 * int64(1_000_000)

// read parses a body into lead. reason names the first rule that the body
// breaks, "" if none. The order of rules is: types, lengths, name, contact,
// e-mail, phone, consent status, time of consent.
func read(o *fastjson.Object, lead *abi.Lead) (reason string) {
	var consent *fastjson.Object
	r := reader{}
	if v := jsonbody.Member(o, "consent"); v != nil {
		if consent = v.GetObject(); consent == nil {
			return "invalid_field_type"
		}
	}
	lead.FirstName = r.trimmed(o, "first_name", maxName)
	lead.LastName = r.trimmed(o, "last_name", maxName)
	name := r.trimmed(o, "name", maxName)
	lead.Email = r.trimmed(o, "email", maxEmail)
	lead.Phone = r.trimmed(o, "phone", maxPhone)
	lead.ConsentStatus = "none"
	captured, isGiven := "", false
	if consent != nil {
		// An empty status or time is a mistake, and no consent should rest on it.
		if jsonbody.Member(consent, "status") != nil {
			lead.ConsentStatus = r.text(consent, "status")
		}
		lead.ConsentText = r.text(consent, "text_snapshot")
		r.limit(lead.ConsentText, maxConsent)
		isGiven = jsonbody.Member(consent, "captured_at") != nil
		captured = r.text(consent, "captured_at")
	}
	first, rest := split(name)
	if lead.FirstName == "" {
		lead.FirstName = first
	}
	if lead.LastName == "" {
		lead.LastName = rest
	}
	var isTime bool
	lead.Captured, isTime = isotime.Parse(captured)

	switch {
	case r.wrongType:
		return "invalid_field_type"
	case r.tooLong:
		return "field_too_long"
	case lead.FirstName == "":
		return "name_required"
	case lead.Email == "" && lead.Phone == "":
		return "contact_required"
	case lead.Email != "" && !isEmail(lead.Email):
		return "invalid_email"
	case lead.Phone != "" && !isPhone(lead.Phone):
		return "invalid_phone"
	case !isConsent(lead.ConsentStatus):
		return "invalid_consent_status"
	case isGiven && (!isTime || lead.Captured < earliestConsent):
		return "invalid_captured_at"
	}
	return ""
}

// reader reads texts from a body and remembers whether any was wrong.
type reader struct{ wrongType, tooLong bool }

func (r *reader) text(o *fastjson.Object, name string) string {
	s, ok := jsonbody.Text(jsonbody.Member(o, name))
	if !ok {
		r.wrongType = true
	}
	return s
}

// trimmed is like text but removes surrounding white space, so a blank text
// counts as absent.
func (r *reader) trimmed(o *fastjson.Object, name string, most int) string {
	s := strings.TrimSpace(r.text(o, name))
	r.limit(s, most)
	return s
}

func (r *reader) limit(s string, most int) {
	if utf8.RuneCountInString(s) > most {
		r.tooLong = true
	}
}

// split divides a full name at its first run of white space.
func split(name string) (first, rest string) {
	for i, c := range name {
		if unicode.IsSpace(c) {
			return name[:i], strings.TrimSpace(name[i:])
		}
	}
	return name, ""
}

func isConsent(status string) bool {
	return status == "none" || status == "express_written" || status == "inbound_initiated"
}
