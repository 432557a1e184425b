package contract

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// lead is a lead as it is answered. Each field but environment is JSON.
func lead(first, last, email, phone, consent, environment string) string {
	return fmt.Sprintf(`{"lead":{"id":"<id=id:lead>","first_name":%s,"last_name":%s,"email":%s,"phone":%s,
		"consent_status":%s,"environment":%q},"sandbox":%t,"api_version":"v2"}`,
		first, last, email, phone, consent, environment, environment == "test")
}

var (
	anaLead  = lead(`"Ana"`, `"Lima"`, `"ana@example.com"`, `null`, `"none"`, "live")
	testLead = lead(`"Ana"`, `"Lima"`, `"ana@example.com"`, `null`, `"none"`, "test")
)

// wantLeads waits until the account has as many leads as wanted, and compares
// them; ids are those captured as want.ID says.
func (s *Session) wantLeads(want ...Lead) {
	s.T.Helper()
	got := map[string]Lead{}
	deadline, again := time.After(10*time.Second), time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for len(got) < len(want) {
		for _, l := range s.target.Fixture.Leads(s.T, s.Account) {
			got[l.ID] = l
		}
		select {
		case <-deadline:
			s.T.Fatalf("%d leads kept, want %d", len(got), len(want))
		case <-again.C:
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

func leads() []Case {
	live := func(body, want string) Step { return post("leads", body, 201, want) }
	test := func(body, want string) Step {
		s := live(body, want)
		s.Key = Test
		return s
	}
	remember := func(as string) func(*Session) { return func(s *Session) { s.Set(as, s.Get("id")) } }
	const ana = `{"name":"Ana Lima","email":"ana@example.com"}`
	conflict, badKey := refused("idempotency_conflict", ""), refused("invalid_idempotency_key", "")
	once := func(role Role, key, body string, status int, want string) Step {
		return Step{
			Method: "POST", Path: "leads", Key: role, Header: http.Header{"Idempotency-Key": {key}}, Body: body,
			Status: status, WantBody: want,
		}
	}
	then := func(before func(*Session), s Step) Step { s.Before = before; return s }
	again := func(lead string) string { return strings.Replace(lead, "<id=id:lead>", "$(first)", 1) }
	const whole = `{"first_name":"Ana","last_name":"Lima","name":"Someone Else","email":"ana@example.com","phone":"+1 (555) 010-9999",
		"consent":{"status":"express_written","text_snapshot":" I agree.\n\"Yes\" ","captured_at":"2025-05-01T12:00:00+02:00"}}`
	return []Case{
		{Name: "leads/every field", Steps: []Step{
			live(whole, lead(`"Ana"`, `"Lima"`, `"ana@example.com"`, `"+1 (555) 010-9999"`, `"express_written"`, "live")),
		}, Then: func(s *Session) {
			s.wantLeads(Lead{
				ID: "id", FirstName: "Ana", LastName: "Lima", Email: "ana@example.com", Phone: "+1 (555) 010-9999",
				ConsentStatus: "express_written", ConsentText: " I agree.\n\"Yes\" ",
				Captured: time.Date(2025, 5, 1, 10, 0, 0, 0, time.UTC), Environment: "live",
			})
		}},
		{Name: "leads/test key, never kept", Steps: []Step{
			test(`{"name":"Ana Lima","email":"ana@example.com"}`, testLead),
			test(whole, lead(`"Ana"`, `"Lima"`, `"ana@example.com"`, `"+1 (555) 010-9999"`, `"express_written"`, "test")),
			live(`{"first_name":"Bo","phone":"5550100999"}`, lead(`"Bo"`, `null`, `null`, `"5550100999"`, `"none"`, "live")),
		}, Then: func(s *Session) {
			s.wantLeads(Lead{ID: "id", FirstName: "Bo", Phone: "5550100999", ConsentStatus: "none", Environment: "live"})
		}},
		{Name: "leads/test key is judged alike", Steps: []Step{{
			Method: "POST", Path: "leads", Key: Test, Body: `{"name":"Ana"}`,
			Status: 400, WantBody: refused("invalid_lead", "contact_required"),
		}}},
		{Name: "leads/the same twice are two", Steps: []Step{
			live(`{"name":"Ana Lima","email":"ana@example.com"}`, anaLead),
			{
				Before: remember("first"), Method: "POST", Path: "leads", Body: `{"name":"Ana Lima","email":"ana@example.com"}`,
				Status: 201, WantBody: anaLead,
			},
		}, Then: func(s *Session) {
			l := Lead{FirstName: "Ana", LastName: "Lima", Email: "ana@example.com", ConsentStatus: "none", Environment: "live"}
			first, second := l, l
			first.ID, second.ID = "first", "id"
			s.wantLeads(first, second)
		}},
		{Name: "leads/idempotency key, done once", Steps: []Step{
			once(Live, "order 7", ana, 201, anaLead),
			then(remember("first"), once(Live, "order 7", ana, 201, again(anaLead))),
			once(Live, "order 7", `{"name":"Bo","email":"ana@example.com"}`, 409, conflict),
			once(Live, "order 7", ana, 201, again(anaLead)),
			once(Second, "order 7", ana, 201, anaLead), // another key's is another
			once(Live, "order 8", ana, 201, anaLead),
		}, Then: func(s *Session) {
			if n := len(s.target.Fixture.Leads(s.T, s.Account)); n != 3 {
				s.T.Errorf("%d leads kept, want 3", n)
			}
		}},
		{Name: "leads/idempotency key of a test key", Steps: []Step{
			once(Test, "order 7", ana, 201, testLead),
			then(remember("first"), once(Test, "order 7", ana, 201, again(testLead))),
			once(Test, "order 7", `{"name":"Bo","email":"ana@example.com"}`, 409, conflict),
		}, Then: func(s *Session) { s.wantLeads() }},
		{Name: "leads/idempotency key of a refused lead is free", Steps: []Step{
			once(Live, "order 7", `{"name":"Ana"}`, 400, refused("invalid_lead", "contact_required")),
			once(Live, "order 7", ana, 201, anaLead),
		}},
		{Name: "leads/idempotency key for a day", Needs: Clock, Steps: []Step{
			once(Live, "order 7", ana, 201, anaLead),
			then(func(s *Session) { remember("first")(s); s.target.Advance(24*time.Hour - time.Second) },
				once(Live, "order 7", ana, 201, again(anaLead))),
			then(func(s *Session) { s.target.Advance(time.Second) },
				once(Live, "order 7", `{"name":"Bo","phone":"5550100999"}`, 201, lead(`"Bo"`, `null`, `null`, `"5550100999"`, `"none"`, "live"))),
		}},
		{Name: "leads/idempotency key, as long as it may be", Steps: []Step{
			once(Live, strings.Repeat("~", 255), ana, 201, anaLead),
			once(Live, "!", ana, 201, anaLead),
		}},
		{Name: "leads/idempotency key that is none", Steps: []Step{
			once(Live, "", ana, 400, badKey),
			once(Live, strings.Repeat("x", 256), ana, 400, badKey),
			once(Live, "tab\tinside", ana, 400, badKey),
			once(Live, "é", ana, 400, badKey),
			once(Live, "", "{", 400, badKey), // before the body
			{
				Method: "POST", Path: "leads", Header: http.Header{"Idempotency-Key": {"a", "b"}}, Body: ana,
				Status: 400, WantBody: badKey,
			},
		}, Then: func(s *Session) { s.wantLeads() }},
		{Name: "leads/a refused one is not kept", Steps: []Step{
			post("leads", `{"name":"Ana","email":"no"}`, 400, refused("invalid_lead", "invalid_email")),
			live(`{"name":"Ana Lima","email":"ana@example.com"}`, anaLead),
		}, Then: func(s *Session) {
			s.wantLeads(Lead{ID: "id", FirstName: "Ana", LastName: "Lima", Email: "ana@example.com", ConsentStatus: "none", Environment: "live"})
		}},
		{Name: "leads/null is as good as absent", Steps: []Step{
			live(`{"first_name":null,"last_name":null,"name":"Ana","email":null,"phone":"555-0100-99","consent":null}`,
				lead(`"Ana"`, `null`, `null`, `"555-0100-99"`, `"none"`, "live")),
			live(`{"name":"Ana","email":"a@example.com","consent":{"status":null,"text_snapshot":null,"captured_at":null}}`,
				lead(`"Ana"`, `null`, `"a@example.com"`, `null`, `"none"`, "live")),
		}},
		{Name: "leads/empty is as good as absent", Steps: []Step{
			live(`{"first_name":"","last_name":" ","name":" Ana \t Lima ","email":" ana@example.com\n","phone":"  "}`, anaLead),
		}},
		{Name: "leads/names", Steps: []Step{
			live(`{"name":"Ana Maria de Lima","email":"a@example.com"}`, lead(`"Ana"`, `"Maria de Lima"`, `"a@example.com"`, `null`, `"none"`, "live")),
			live(`{"name":"Ana    Lima  Sá","email":"a@example.com"}`, lead(`"Ana"`, `"Lima  Sá"`, `"a@example.com"`, `null`, `"none"`, "live")),
			live(`{"name":"Ana","email":"a@example.com"}`, lead(`"Ana"`, `null`, `"a@example.com"`, `null`, `"none"`, "live")),
			live(`{"name":"山田\u3000太郎","email":"a@example.com"}`, lead(`"山田"`, `"太郎"`, `"a@example.com"`, `null`, `"none"`, "live")),
			live(`{"name":"Ana Lima","last_name":"Sá","email":"a@example.com"}`, lead(`"Ana"`, `"Sá"`, `"a@example.com"`, `null`, `"none"`, "live")),
			live(`{"name":"Ana Lima","first_name":"Bea","email":"a@example.com"}`, lead(`"Bea"`, `"Lima"`, `"a@example.com"`, `null`, `"none"`, "live")),
			live(`{"first_name":"Ana Maria","email":"a@example.com"}`, lead(`"Ana Maria"`, `null`, `"a@example.com"`, `null`, `"none"`, "live")),
			live(`{"first_name":"\ud83c\udfe1 <b>\"\\","email":"a@example.com"}`, lead(`"🏡 <b>\"\\"`, `null`, `"a@example.com"`, `null`, `"none"`, "live")),
		}},
		{Name: "leads/consent", Steps: []Step{
			live(`{"name":"Ana Lima","email":"ana@example.com","consent":{}}`, anaLead),
			live(`{"name":"Ana Lima","email":"ana@example.com","consent":{"status":"none"}}`, anaLead),
			live(`{"name":"Ana Lima","email":"ana@example.com","consent":{"status":"inbound_initiated"}}`,
				strings.Replace(anaLead, `"none"`, `"inbound_initiated"`, 1)),
			live(`{"name":"Ana Lima","email":"ana@example.com","consent":{"status":"express_written","captured_at":"2025-05-01"}}`,
				strings.Replace(anaLead, `"none"`, `"express_written"`, 1)),
		}},
		{Name: "leads/members it does not know", Steps: []Step{
			live(`{"name":"Ana Lima","email":"ana@example.com","id":"lead_mine","tags":[{"a":[]}],"environment":"test","sandbox":true}`, anaLead),
		}},
		{Name: "leads/of two members the last counts", Steps: []Step{
			live(`{"name":7,"email":"x","name":"Ana Lima","email":"ana@example.com"}`, anaLead),
		}},
	}
}

// leadFields are the rules of each field.
func leadFields() []Case {
	var cases []Case
	for _, c := range notJSON {
		cases = append(cases, Case{Name: "leads/body is " + c.name, Steps: []Step{
			post("leads", c.body, 400, refused("invalid_body", "json_parse_failed")),
		}})
	}
	var types []Step
	for _, field := range []string{"first_name", "last_name", "name", "email", "phone", "consent"} {
		for _, value := range []string{`7`, `true`, `["x"]`, `{"x":1}`, `"x"`} {
			right := `"x"`
			if field == "consent" {
				right = `{"x":1}`
			}
			if value == right {
				continue
			}
			types = append(types, post("leads", `{"name":"A","email":"a@example.com","`+field+`":`+value+`}`,
				400, refused("invalid_lead", "invalid_field_type")))
		}
	}
	for _, field := range []string{"status", "text_snapshot", "captured_at"} {
		types = append(types, post("leads", `{"name":"A","email":"a@example.com","consent":{"`+field+`":7}}`,
			400, refused("invalid_lead", "invalid_field_type")))
	}
	cases = append(cases, Case{Name: "leads/wrong types", Steps: types})

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
		{"time of consent", `{"name":"Ana","email":"a@example.com","consent":{"captured_at":"yesterday"}}`, "invalid_captured_at"},
		{"time of consent that is no day", `{"name":"Ana","email":"a@example.com","consent":{"captured_at":"2025-02-30"}}`, "invalid_captured_at"},
	} {
		cases = append(cases, Case{Name: "leads/refused: " + c.name, Steps: []Step{
			post("leads", c.body, 400, refused("invalid_lead", c.reason)),
		}})
	}

	// Each limit is in characters, and the longest that is allowed is let in.
	long := func(n int) string { return strings.Repeat("é", n) }
	email := func(n int) string { return "a@" + strings.Repeat("é.", n/2-3) + strings.Repeat("x", 4+n%2) }
	base := func(field, value string) string {
		return `{"name":"Ana","email":"a@example.com","` + field + `":"` + value + `"}`
	}
	var limits []Step
	for _, c := range []struct {
		field string
		most  int
		value func(int) string
	}{
		{"first_name", 200, long}, {"last_name", 200, long}, {"name", 200, long}, {"email", 254, email},
		{"phone", 32, func(n int) string { return "5550100" + strings.Repeat(".", n-7) }},
	} {
		limits = append(limits,
			post("leads", base(c.field, c.value(c.most+1)), 400, refused("invalid_lead", "field_too_long")),
			post("leads", base(c.field, c.value(c.most)), 201, `"<any>"`))
	}
	consent := func(n int) string {
		return `{"name":"Ana","email":"a@example.com","consent":{"text_snapshot":"` + long(n) + `"}}`
	}
	limits = append(limits,
		post("leads", consent(10_001), 400, refused("invalid_lead", "field_too_long")),
		post("leads", consent(10_000), 201, `"<any>"`))
	cases = append(cases, Case{Name: "leads/lengths", Steps: limits})

	contact := func(field string, values []string, valid bool) (steps []Step) {
		for _, v := range values {
			body := `{"name":"Ana","` + field + `":"` + v + `"}`
			if !valid {
				steps = append(steps, post("leads", body, 400, refused("invalid_lead", "invalid_"+field)))
			} else if field == "email" {
				steps = append(steps, post("leads", body, 201, lead(`"Ana"`, `null`, `"`+v+`"`, `null`, `"none"`, "live")))
			} else {
				steps = append(steps, post("leads", body, 201, lead(`"Ana"`, `null`, `null`, `"`+v+`"`, `"none"`, "live")))
			}
		}
		return steps
	}
	return append(cases,
		Case{Name: "leads/e-mail addresses", Steps: contact("email", []string{
			"a@b.co", "first.last+tag@sub.example.co.uk", "o'hara_99@ex-ample.com", "用户@例え.テスト", "Ana@Example.COM",
		}, true)},
		Case{Name: "leads/no e-mail addresses", Steps: contact("email", []string{
			"a", "a@", "@b.co", "a@b", "a b@c.de", "a@b..co", "a@.co", ".a@b.co", "a.@b.co", "a..b@c.de", "a@b@c.de", "a@-b.co",
			"a@b-.co", "a@1.2", "a@[127.0.0.1]", `\"a\"@b.co`, "a@b.co,c@d.co", "Ana <a@b.co>", "a@b.co\\u200b", "a@b_c.de",
			strings.Repeat("a", 65) + "@b.co", "a@" + strings.Repeat("b", 64) + ".co", "a\\r\\nBcc: x@b.co",
		}, false)},
		Case{Name: "leads/phone numbers", Steps: contact("phone", []string{
			"5550100", "+15550109999", "(555) 010-9999", "+44 20 7946 0958", "555.010.9999", "01/234 56 78", "555-010-9999 x12",
			"555-010-9999 ext. 123", "555-010-9999#9", "123456789012345",
		}, true)},
		Case{Name: "leads/no phone numbers", Steps: contact("phone", []string{
			"x", "123456", "1234567890123456", "++15550109999", "555+0109999", "call me", "555-010-9999 x", "555-010-9999 x1234567",
			"555-010-9999 x1x2", "5550100;drop", "\u0665\u0665\u0665\u0660\u0661\u0660\u0660", "tel:5550100999", "x12",
		}, false)},
	)
}
