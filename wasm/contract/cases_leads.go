package contract

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lead returns the answer to a lead. By default the consent is "none" and the
// environment "live"; other texts that are empty are null.
func lead(l Lead) string {
	text := func(s string) string {
		if s == "" {
			return "null"
		}
		return strconv.Quote(s)
	}
	return fmt.Sprintf(`{"lead":{"id":"<id=id:lead>","first_name":%s,"last_name":%s,"email":%s,"phone":%s,
		"consent_status":%q,"environment":%q},"sandbox":%t,"api_version":"v2"}`,
		text(l.FirstName), text(l.LastName), text(l.Email), text(l.Phone),
		cmp.Or(l.ConsentStatus, "none"), cmp.Or(l.Environment, "live"), l.Environment == "test")
}

const (
	ana = `{"name":"Ana Lima","email":"ana@example.com"}`
	bo  = `{"name":"Bo","phone":"5550100999"}`

	wholeLead = `{"first_name":"Ana","last_name":"Lima","name":"Someone Else","email":"ana@example.com","phone":"+1 (555) 010-9999",
		"consent":{"status":"express_written","text_snapshot":" I agree.\n\"Yes\" ","captured_at":"2025-05-01T12:00:00+02:00"}}`
)

// oddText holds characters that databases and encoders of JSON treat in different
// ways.
const oddText = `\u0001\u001f\u007f\u0085\u2028\ufeff\ufffd\uffff\udbff\udfff\u003c&>`

var (
	anaLead  = lead(anaKept)
	testLead = lead(Lead{FirstName: "Ana", LastName: "Lima", Email: "ana@example.com", Environment: "test"})
	boLead   = lead(Lead{FirstName: "Bo", Phone: "5550100999"})

	anaKept = Lead{ID: "id", FirstName: "Ana", LastName: "Lima", Email: "ana@example.com", ConsentStatus: "none", Environment: "live"}

	anaOK           = post("leads", ana, 201, anaLead)
	contactRequired = refused("invalid_lead", "contact_required")
)

// accepted is a step whose lead is accepted, refusedLead one whose lead is not.
func accepted(body, want string) Step { return post("leads", body, 201, want) }
func refusedLead(body, reason string) Step {
	return post("leads", body, 400, refused("invalid_lead", reason))
}

// wantLeads waits until the account has as many leads as wanted, and compares
// them. The ID of a wanted lead is the name under which it was captured.
func wantLeads(want ...Lead) func(*Session) {
	return func(s *Session) {
		s.T.Helper()
		got := map[string]Lead{}
		deadline, again := time.After(time.Minute), time.Tick(20*time.Millisecond)
		for {
			for _, l := range s.target.Fixture.Leads(s.T, s.Account) {
				got[l.ID] = l
			}
			if len(got) >= len(want) {
				break
			}
			select {
			case <-deadline:
				s.T.Fatalf("%d leads kept, want %d", len(got), len(want))
			case <-again:
			}
		}
		if n := len(s.target.Fixture.Leads(s.T, s.Account)); n != len(want) {
			s.T.Fatalf("%d leads kept, want %d", n, len(want))
		}
		for _, w := range want {
			w.ID = s.Get(w.ID)
			g := got[w.ID]
			if !g.Captured.Equal(w.Captured) {
				s.T.Errorf("captured at %v, want %v", g.Captured, w.Captured)
			}
			if g.Captured = w.Captured; g != w {
				s.T.Errorf("lead kept as %+v, want %+v", g, w)
			}
		}
	}
}

// rememberFirst captures the id of the last lead as $(first).
func rememberFirst(s *Session) { s.Set("first", s.Get("id")) }

func leads() []Case {
	first := anaKept
	first.ID = "first"
	whole := Lead{
		ID: "id", FirstName: "Ana", LastName: "Lima", Email: "ana@example.com", Phone: "+1 (555) 010-9999",
		ConsentStatus: "express_written", ConsentText: " I agree.\n\"Yes\" ",
		Captured: time.Date(2025, 5, 1, 10, 0, 0, 0, time.UTC), Environment: "live",
	}
	at := func(captured time.Time) Lead {
		l := anaKept
		l.Captured = captured
		return l
	}
	odd := anaKept
	odd.ConsentText = "\x01\x1f\x7f\u0085\u2028\ufeff\ufffd\uffff\U0010ffff<&>"
	wholeTest := whole
	wholeTest.Environment = "test"
	return []Case{
		rule("leads/every field", accepted(wholeLead, lead(whole))).then(wantLeads(whole)),
		rule("leads/test key, never kept",
			accepted(ana, testLead).as(Test),
			accepted(wholeLead, lead(wholeTest)).as(Test),
			accepted(`{"first_name":"Bo","phone":"5550100999"}`, boLead),
		).then(wantLeads(Lead{ID: "id", FirstName: "Bo", Phone: "5550100999", ConsentStatus: "none", Environment: "live"})),
		rule("leads/test key is judged alike", refusedLead(`{"name":"Ana"}`, "contact_required").as(Test)),
		rule("leads/the same twice are two", anaOK, anaOK.before(rememberFirst)).then(wantLeads(first, anaKept)),
		rule("leads/a refused one is not kept", refusedLead(`{"name":"Ana","email":"no"}`, "invalid_email"), anaOK).then(wantLeads(anaKept)),
		rule("leads/null is as good as absent",
			accepted(`{"first_name":null,"last_name":null,"name":"Ana","email":null,"phone":"555-0100-99","consent":null}`,
				lead(Lead{FirstName: "Ana", Phone: "555-0100-99"})),
			accepted(`{"name":"Ana","email":"a@example.com","consent":{"status":null,"text_snapshot":null,"captured_at":null}}`,
				lead(Lead{FirstName: "Ana", Email: "a@example.com"}))),
		rule("leads/empty is as good as absent",
			accepted(`{"first_name":"","last_name":" ","name":" Ana \t Lima ","email":" ana@example.com\n","phone":"  "}`, anaLead)),
		rule("leads/names", leadNames()...),
		rule("leads/consent",
			accepted(`{"name":"Ana Lima","email":"ana@example.com","consent":{}}`, anaLead),
			accepted(`{"name":"Ana Lima","email":"ana@example.com","consent":{"status":"none"}}`, anaLead),
			accepted(`{"name":"Ana Lima","email":"ana@example.com","consent":{"status":"inbound_initiated"}}`,
				strings.Replace(anaLead, `"none"`, `"inbound_initiated"`, 1)),
			accepted(`{"name":"Ana Lima","email":"ana@example.com","consent":{"status":"express_written","captured_at":"2025-05-01"}}`,
				strings.Replace(anaLead, `"none"`, `"express_written"`, 1))),
		rule("leads/consent captured as early as it may be",
			accepted(consentAt("1970-01-01T23:00:00-01:00"), anaLead)).then(wantLeads(at(time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC)))),
		rule("leads/consent captured as late as it may be",
			accepted(consentAt("9999-12-31T23:59:59.9999999Z"), anaLead)).then(wantLeads(at(time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)))),
		rule("leads/text of odd characters",
			accepted(`{"name":"Ana Lima","email":"ana@example.com","consent":{"text_snapshot":"`+oddText+`"}}`, anaLead)).then(wantLeads(odd)),
		rule("leads/members it does not know",
			accepted(`{"name":"Ana Lima","email":"ana@example.com","id":"lead_mine","tags":[{"a":[]}],"environment":"test","sandbox":true}`, anaLead)),
		rule("leads/of two members the last counts",
			accepted(`{"name":7,"email":"x","name":"Ana Lima","email":"ana@example.com"}`, anaLead)),
	}
}

func leadNames() (steps []Step) {
	for _, c := range []struct{ members, first, last string }{
		{`"name":"Ana Maria de Lima"`, "Ana", "Maria de Lima"},
		{`"name":"Ana    Lima  Sá"`, "Ana", "Lima  Sá"},
		{`"name":"Ana"`, "Ana", ""},
		{`"name":"山田\u3000太郎"`, "山田", "太郎"},
		{`"name":"Ana Lima","last_name":"Sá"`, "Ana", "Sá"},
		{`"name":"Ana Lima","first_name":"Bea"`, "Bea", "Lima"},
		{`"first_name":"Ana Maria"`, "Ana Maria", ""},
		{`"first_name":"\ud83c\udfe1 <b>\"\\"`, `🏡 <b>"\`, ""},
	} {
		steps = append(steps, accepted(`{`+c.members+`,"email":"a@example.com"}`,
			lead(Lead{FirstName: c.first, LastName: c.last, Email: "a@example.com"})))
	}
	return steps
}

// keyed gives a step an idempotency key, or several.
func keyed(s Step, keys ...string) Step { return s.with("Idempotency-Key", keys...) }

func idempotency() []Case {
	once := keyed(anaOK, "order 7")
	onceTest := keyed(accepted(ana, testLead), "order 7").as(Test)
	again := func(s Step) Step {
		s = s.wants("Idempotent-Replayed", "true")
		s.WantBody = strings.Replace(s.WantBody, "<id=id:lead>", "$(first)", 1)
		return s
	}
	conflict := keyed(post("leads", `{"name":"Bo","email":"ana@example.com"}`, 409, refused("idempotency_conflict", "")), "order 7")
	badKey := post("leads", ana, 400, refused("invalid_idempotency_key", ""))
	badBody := post("leads", "{", 400, badKey.WantBody)
	return []Case{
		rule("leads/idempotency key, done once",
			once,
			again(once).before(rememberFirst),
			conflict,
			again(once),
			once.as(Second), // the same key of another API key is another key
			keyed(anaOK, "order 8"),
		).then(func(s *Session) {
			if n := len(s.target.Fixture.Leads(s.T, s.Account)); n != 3 {
				s.T.Errorf("%d leads kept, want 3", n)
			}
		}),
		rule("leads/idempotency key of a test key",
			onceTest, again(onceTest).before(rememberFirst), conflict.as(Test)).then(wantLeads()),
		rule("leads/idempotency key of a refused lead is free",
			keyed(post("leads", `{"name":"Ana"}`, 400, contactRequired), "order 7"), once),
		rule("leads/idempotency key for a day",
			once,
			again(once).before(func(s *Session) { rememberFirst(s); s.target.Advance(24*time.Hour - time.Second) }),
			keyed(accepted(bo, boLead), "order 7").after(time.Second)).needs(Clock),
		rule("leads/idempotency key, as long as it may be",
			keyed(anaOK, strings.Repeat("~", 255)), keyed(anaOK, "!")),
		rule("leads/idempotency key that is none",
			keyed(badKey, ""), keyed(badKey, strings.Repeat("x", 256)), keyed(badKey, "tab\tinside"), keyed(badKey, "é"),
			keyed(badBody, ""), // before the body
			keyed(badKey, "a", "b")).then(wantLeads()),
	}
}

// leadFields are the rules of each field.
func leadFields() []Case {
	var cases []Case
	for _, c := range notJSON {
		cases = append(cases, rule("leads/body is "+c.name, post("leads", c.body, 400, refused("invalid_body", "json_parse_failed"))))
	}
	for _, c := range []struct{ name, body, reason string }{
		{"no field", `{}`, "name_required"},
		{"no name", `{"email":"a@example.com"}`, "name_required"},
		{"last name only", `{"last_name":"Lima","email":"a@example.com"}`, "name_required"},
		{"blank name", `{"name":" \t\n","first_name":"","email":"a@example.com"}`, "name_required"},
		{"no contact", `{"name":"Ana"}`, "contact_required"},
		{"blank contact", `{"name":"Ana","email":" ","phone":""}`, "contact_required"},
		{"one bad of two contacts", `{"name":"Ana","email":"a@example.com","phone":"x"}`, "invalid_phone"},
		{"consent status", `{"name":"Ana","email":"a@example.com","consent":{"status":"yes"}}`, "invalid_consent_status"},
		{"consent status in capitals", `{"name":"Ana","email":"a@example.com","consent":{"status":"NONE"}}`, "invalid_consent_status"},
		{"empty consent status", `{"name":"Ana","email":"a@example.com","consent":{"status":""}}`, "invalid_consent_status"},
		{"time of consent", `{"name":"Ana","email":"a@example.com","consent":{"captured_at":"yesterday"}}`, "invalid_captured_at"},
		{"empty time of consent", consentAt(""), "invalid_captured_at"},
		{"time of consent that is no day", `{"name":"Ana","email":"a@example.com","consent":{"captured_at":"2025-02-30"}}`, "invalid_captured_at"},
		{"time of consent before 1970", consentAt("1900-01-01"), "invalid_captured_at"},
		{"time of consent in the year 0", consentAt("0000-01-01T00:00:00Z"), "invalid_captured_at"},
		{"time of consent in the year 1", consentAt("0001-01-01T00:00:00Z"), "invalid_captured_at"},
		{"time of consent at the epoch", consentAt("1970-01-01T00:00:00Z"), "invalid_captured_at"},
		{"time of consent just before 1970-01-02", consentAt("1970-01-01T23:59:59.999999Z"), "invalid_captured_at"},
		{"time of consent on 1970-01-02, before it in UTC", consentAt("1970-01-02T00:59:59+01:00"), "invalid_captured_at"},
		{"time of consent after the year 9999", consentAt("9999-12-31T23:59:59-01:00"), "invalid_captured_at"},
	} {
		cases = append(cases, rule("leads/refused: "+c.name, refusedLead(c.body, c.reason)))
	}
	return append(cases, rule("leads/wrong types", leadTypes()...), rule("leads/lengths", leadLengths()...))
}

// consentAt returns a lead whose consent was captured at a time.
func consentAt(captured string) string {
	return `{"name":"Ana Lima","email":"ana@example.com","consent":{"captured_at":"` + captured + `"}}`
}

// leadTypes sends each field with values of a wrong type.
func leadTypes() (steps []Step) {
	for _, field := range []string{"first_name", "last_name", "name", "email", "phone", "consent"} {
		right := `"x"`
		if field == "consent" {
			right = `{"x":1}`
		}
		for _, value := range []string{`7`, `true`, `["x"]`, `{"x":1}`, `"x"`} {
			if value != right {
				steps = append(steps, refusedLead(`{"name":"A","email":"a@example.com","`+field+`":`+value+`}`, "invalid_field_type"))
			}
		}
	}
	for _, field := range []string{"status", "text_snapshot", "captured_at"} {
		steps = append(steps, refusedLead(`{"name":"A","email":"a@example.com","consent":{"`+field+`":7}}`, "invalid_field_type"))
	}
	return steps
}

// leadLengths sends each field one character too long, and as long as it may be.
func leadLengths() (steps []Step) {
	long := func(n int) string { return strings.Repeat("é", n) }
	field := func(name string, value func(int) string) func(int) string {
		return func(n int) string { return `"` + name + `":"` + value(n) + `"` }
	}
	for _, c := range []struct {
		most   int
		member func(int) string
	}{
		{200, field("first_name", long)}, {200, field("last_name", long)}, {200, field("name", long)},
		{254, field("email", func(n int) string { return "a@" + strings.Repeat("é.", n/2-3) + strings.Repeat("x", 4+n%2) })},
		{32, field("phone", func(n int) string { return "5550100" + strings.Repeat(".", n-7) })},
		{10_000, func(n int) string { return `"consent":{"text_snapshot":"` + long(n) + `"}` }},
	} {
		body := func(n int) string { return `{"name":"Ana","email":"a@example.com",` + c.member(n) + `}` }
		steps = append(steps, refusedLead(body(c.most+1), "field_too_long"), accepted(body(c.most), `"<any>"`))
	}
	return steps
}

// leadContacts are the rules of e-mail addresses and phone numbers.
func leadContacts() []Case {
	contacts := func(field string, accept bool, values ...string) (steps []Step) {
		for _, v := range values {
			step := refusedLead(`{"name":"Ana","`+field+`":"`+v+`"}`, "invalid_"+field)
			if accept && field == "email" {
				step = step.answers(201, lead(Lead{FirstName: "Ana", Email: v}))
			} else if accept {
				step = step.answers(201, lead(Lead{FirstName: "Ana", Phone: v}))
			}
			steps = append(steps, step)
		}
		return steps
	}
	return []Case{
		rule("leads/e-mail addresses", contacts("email", true,
			"a@b.co", "first.last+tag@sub.example.co.uk", "o'hara_99@ex-ample.com", "用户@例え.テスト", "Ana@Example.COM")...),
		rule("leads/no e-mail addresses", contacts("email", false,
			"a", "a@", "@b.co", "a@b", "a b@c.de", "a@b..co", "a@.co", ".a@b.co", "a.@b.co", "a..b@c.de", "a@b@c.de", "a@-b.co",
			"a@b-.co", "a@1.2", "a@[127.0.0.1]", `\"a\"@b.co`, "a@b.co,c@d.co", "Ana <a@b.co>", "a@b.co\\u200b", "a\\u00ad@b.co", "a@b\\u3164.co", "a@b_c.de",
			strings.Repeat("a", 65)+"@b.co", "a@"+strings.Repeat("b", 64)+".co", "a\\r\\nBcc: x@b.co")...),
		rule("leads/phone numbers", contacts("phone", true,
			"5550100", "+15550109999", "(555) 010-9999", "+44 20 7946 0958", "555.010.9999", "01/234 56 78", "555-010-9999 x12",
			"555-010-9999 ext. 123", "555-010-9999#9", "123456789012345")...),
		rule("leads/no phone numbers", contacts("phone", false,
			"x", "123456", "1234567890123456", "++15550109999", "555+0109999", "call me", "555-010-9999 x", "555-010-9999 x1234567",
			"555-010-9999 x1x2", "5550100;drop", "\u0665\u0665\u0665\u0660\u0661\u0660\u0660", "tel:5550100999", "x12")...),
	}
}
