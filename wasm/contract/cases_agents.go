package contract

import (
	"strings"
	"time"
)

// me is the answer of agents/me for a session's account.
const me = `{
	"agent":{"id":"<string>","email":"ana@example.com","full_name":"Ana Lima","joined_at":"<time>"},
	"account":{"id":"$(account)","name":"Lima Realty","activation_mode":"live"},
	"api_version":"v2"}`

// sample is one insight of the sample set, samples the answer with all of it.
const (
	sample  = `{"id":"<string>","headline":"<string>","detail":"<string>","created_at":"<time>","source":"fallback"}`
	samples = `{"insights":[
		{"id":"<string>","headline":"<string>","detail":"<string>","created_at":"<newest=time>","source":"fallback"},
		` + sample + `,` + sample + `],"count":3,"limit":10,"note":"<has:sample>"}`
	noFirings = `{"firings":[],"count":0,"next_cursor":null,"limit":25}`
)

// base is the time of the first insight or firing of a case.
var base = time.Date(2025, 3, 1, 9, 0, 0, 0, time.UTC)

func agents() []Case {
	return []Case{
		rule("agents/live key", meOK.wants("X-Svc-Environment", "live")),
		rule("agents/test key", meOK.as(Test).wants("X-Svc-Environment", "test")),
		rule("agents/account in setup, names of any script", get("agents/me", 200, `{
			"agent":{"id":"<string>","email":"zoe+x@example.com","full_name":"Zoë 山田 🏡","joined_at":"<time>"},
			"account":{"id":"$(account)","name":"Łódź \"Homes\" <& Co>","activation_mode":"setup"},
			"api_version":"v2"}`)).setup(func(s *Session) {
			s.UseAccount(Account{Name: `Łódź "Homes" <& Co>`, Email: "zoe+x@example.com", Agent: "Zoë 山田 🏡"})
		}),
		rule("agents/parameters are left alone", get("agents/me?limit=x&%zz&a=b", 200, me)),
		rule("agents/two keys, one agent",
			get("agents/me", 200, strings.Replace(me, `"<string>"`, `"<agent=string>"`, 1)),
			get("agents/me", 200, strings.Replace(me, `"<string>"`, `"$(agent)"`, 1)).as(Test)),
	}
}
