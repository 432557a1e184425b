package contract

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

// refused is the body of an error; reason "" means that there is none.
func refused(code, reason string) string {
	if reason == "" {
		return `{"error":"` + code + `"}`
	}
	return `{"error":"` + code + `","reason":"` + reason + `"}`
}

// authorize is an Authorization header for each value.
func authorize(values ...string) http.Header { return http.Header{"Authorization": values} }

// unauthorized is a step that fails to authenticate.
func unauthorized(reason string, header http.Header) Step {
	return Step{
		Method: "GET", Path: "agents/me", Key: NoKey, Header: header,
		Status: 401, WantBody: refused("unauthorized", reason),
	}
}

// unknown is a well-formed key that nobody has.
func unknown() string {
	var random [apikey.RandomSize]byte
	for i := range random {
		random[i] = byte(i * 7 % 248)
	}
	return apikey.Mint(abi.EnvLive, &random)
}

// endpoints are the six, with what each needs and a request that it answers.
var endpoints = []struct {
	scope string
	step  Step
}{
	{"read:agent", Step{Method: "GET", Path: "agents/me"}},
	{"read:coaching", Step{Method: "GET", Path: "coaching/insights"}},
	{"read:sentinels", Step{Method: "GET", Path: "sentinels/firings"}},
	{"write:webhooks", Step{Method: "POST", Path: "webhooks/subscribe", Body: `{"target_url":"$(hook)","events":["sentinel.fired"]}`}},
	{"write:webhooks", Step{Method: "DELETE", Path: "webhooks/whs_01h455vb4pex5vsknk084sn02q"}},
	{"write:leads", Step{Method: "POST", Path: "leads", Body: `{"name":"Ana Lima","email":"ana@example.com"}`}},
}

// setToken gives $(token) the plaintext of a role's key.
func setToken(role Role) func(*Session) {
	return func(s *Session) { s.Set("token", s.Token(role)) }
}

func authentication() []Case {
	cases := []Case{
		{Name: "auth/scheme in any case", Setup: setToken(Live), Steps: []Step{
			{Method: "GET", Path: "agents/me", Header: authorize("bearer $(token)"), Status: 200, WantBody: me},
			{Method: "GET", Path: "agents/me", Header: authorize("BEARER $(token)"), Status: 200, WantBody: me},
		}},
		{Name: "auth/key in grace", Steps: []Step{
			{Method: "GET", Path: "agents/me", Key: InGraceKey, Status: 200, WantBody: me},
		}},
		{Name: "auth/revoked while in use", Needs: Clients, Steps: []Step{
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me},
			{
				Before: func(s *Session) { s.target.Fixture.RevokeKey(s.T, s.Token(Live)) },
				Method: "GET", Path: "agents/me", Within: 5 * time.Second,
				Status: 401, WantBody: refused("unauthorized", "api_key_revoked"),
			},
			{Method: "GET", Path: "agents/me", Key: Second, Status: 200, WantBody: me},
		}},
		{Name: "auth/expires while in use", Needs: Clock, Steps: []Step{
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me},
			{
				Before: func(s *Session) { s.target.Advance(366 * 24 * time.Hour) },
				Method: "GET", Path: "agents/me", Status: 401, WantBody: refused("unauthorized", "api_key_expired"),
			},
		}},
		{Name: "auth/grace ends while in use", Needs: Clock, Steps: []Step{
			{Method: "GET", Path: "agents/me", Key: InGraceKey, Status: 200, WantBody: me},
			{
				Before: func(s *Session) { s.target.Advance(8 * 24 * time.Hour) },
				Method: "GET", Path: "agents/me", Key: InGraceKey,
				Status: 401, WantBody: refused("unauthorized", "api_key_grace_expired"),
			},
		}},
		{Name: "auth/key in the query is no key", Needs: Clients, Setup: setToken(Live), Steps: []Step{{
			Method: "GET", Path: "agents/me?api_key=$(token)&access_token=$(token)", Key: NoKey,
			Status: 401, WantBody: refused("unauthorized", "missing_bearer_token"),
		}}},
		{Name: "auth/another environment's prefix", Needs: Clients, Setup: func(s *Session) {
			s.Set("token", strings.Replace(s.Token(Live), "svc_live_", "svc_test_", 1))
		}, Steps: []Step{unauthorized("malformed_api_key", authorize("Bearer $(token)"))}},
		{Name: "auth/one character changed", Needs: Clients, Setup: func(s *Session) {
			token := []byte(s.Token(Live))
			if token[20]++; token[20] == 'z'+1 || token[20] == 'Z'+1 || token[20] == '9'+1 {
				token[20] = 'a'
			}
			s.Set("token", string(token))
		}, Steps: []Step{unauthorized("malformed_api_key", authorize("Bearer $(token)"))}},
		{Name: "auth/two headers", Needs: Clients, Setup: setToken(Live), Steps: []Step{
			unauthorized("malformed_api_key", authorize("Bearer $(token)", "Bearer $(token)")),
		}},
		{Name: "auth/two keys in one header", Needs: Clients, Setup: setToken(Live), Steps: []Step{
			unauthorized("malformed_api_key", authorize("Bearer $(token), Bearer $(token)")),
		}},
	}
	for _, c := range []struct{ name, value, reason string }{
		{"no value", "", "missing_bearer_token"},
		{"another scheme", "Basic YTpi", "missing_bearer_token"},
		{"scheme alone", "Bearer", "missing_bearer_token"},
		{"scheme and spaces", "Bearer   ", "missing_bearer_token"},
		{"scheme that begins alike", "Bearers abc", "missing_bearer_token"},
		{"a word", "Bearer abc", "malformed_api_key"},
		{"prefix alone", "Bearer svc_live_", "malformed_api_key"},
		{"unknown prefix", "Bearer svc_prod_" + strings.Repeat("a", 36), "malformed_api_key"},
		{"right length, wrong checksum", "Bearer svc_live_" + strings.Repeat("a", 36), "malformed_api_key"},
		{"too long", "Bearer svc_live_" + strings.Repeat("a", 4000), "malformed_api_key"},
		{"not ASCII", "Bearer svc_live_ß" + strings.Repeat("a", 34), "malformed_api_key"},
		{"bytes that are not UTF-8", "Bearer svc_live_\xff\xfe", "malformed_api_key"},
		{"unknown", "Bearer " + unknown(), "unknown_api_key"},
	} {
		cases = append(cases, Case{
			Name: "auth/" + c.name, Needs: Clients,
			Steps: []Step{unauthorized(c.reason, authorize(c.value))},
		})
	}
	for _, c := range []struct {
		key    Role
		reason string
	}{
		{RevokedKey, "api_key_revoked"}, {ExpiredKey, "api_key_expired"}, {GraceOver, "api_key_grace_expired"},
	} {
		cases = append(cases, Case{Name: "auth/" + string(c.key) + " key", Needs: Clients, Steps: []Step{{
			Method: "GET", Path: "agents/me", Key: c.key, Status: 401, WantBody: refused("unauthorized", c.reason),
		}}})
	}
	for _, e := range endpoints {
		e.step.Key, e.step.Status = NoKey, 401
		e.step.WantBody = refused("unauthorized", "missing_bearer_token")
		cases = append(cases, Case{
			Name: "auth/no key, " + e.step.Method + " " + e.step.Path, Needs: Clients, Steps: []Step{e.step},
		})
	}
	return append(cases, lockout()...)
}

const lockedOut = `{"error":"too_many_failed_attempts","reason":"ip_locked_out","retry_after_seconds":"<int:1..900>"}`

func lockout() []Case {
	// With the 20th failure an address is locked out.
	failures := unauthorized("unknown_api_key", authorize("Bearer "+unknown()))
	failures.Times = 20
	locked := Step{
		Method: "GET", Path: "agents/me", Status: 403,
		WantHeader: map[string]string{"Retry-After": "<int:1..900>"}, WantBody: lockedOut,
	}
	elsewhere := func(s *Session) netip.Addr { return s.Elsewhere() }
	return []Case{
		{Name: "lockout/after 20 failures", Needs: Clients, Steps: []Step{
			failures, locked,
			{
				Method: "GET", Path: "agents/me", Key: NoKey, Status: 403,
				WantHeader: map[string]string{"Retry-After": "<int:1..900>"}, WantBody: lockedOut,
			},
			{Method: "GET", Path: "agents/me", From: elsewhere, Status: 200, WantBody: me},
		}},
		{Name: "lockout/not after 19", Needs: Clients, Steps: []Step{
			func() Step { s := failures; s.Times = 19; return s }(),
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me},
		}},
		{Name: "lockout/ends", Needs: Clients | Clock, Steps: []Step{
			failures, locked,
			{
				Before: func(s *Session) { s.target.Advance(14 * time.Minute) },
				Method: "GET", Path: "agents/me", Status: 403,
				WantHeader: map[string]string{"Retry-After": "60"},
				WantBody:   `{"error":"too_many_failed_attempts","reason":"ip_locked_out","retry_after_seconds":60}`,
			},
			{
				Before: func(s *Session) { s.target.Advance(time.Minute) },
				Method: "GET", Path: "agents/me", Status: 200, WantBody: me,
			},
		}},
		{Name: "lockout/failures grow old", Needs: Clients | Clock, Steps: []Step{
			func() Step { s := failures; s.Times = 19; return s }(),
			func() Step {
				s := failures
				s.Times = 1
				s.Before = func(s *Session) { s.target.Advance(5*time.Minute + time.Second) }
				return s
			}(),
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me},
		}},
		{Name: "lockout/keys that were good do not count", Needs: Clients, Steps: []Step{
			{Method: "GET", Path: "agents/me", Key: ExpiredKey, Times: 21, Status: 401, WantBody: refused("unauthorized", "api_key_expired")},
			{Method: "GET", Path: "agents/me", Key: GraceOver, Times: 21, Status: 401, WantBody: refused("unauthorized", "api_key_grace_expired")},
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me},
		}},
		{Name: "lockout/refusals do not count", Needs: Clients, Steps: []Step{
			{Method: "GET", Path: "agents/me", Key: NoScope, Times: 25, Status: 403, WantBody: refused("forbidden", "insufficient_scope")},
			{Method: "GET", Path: "agents/me", Key: ElsewhereKey, Times: 25, Status: 403, WantBody: refused("forbidden", "ip_not_allowed")},
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me},
		}},
	}
}

func authorization() []Case {
	cases := []Case{
		{Name: "allowlist/another address", Steps: []Step{
			{Method: "GET", Path: "agents/me", Key: ElsewhereKey, Status: 403, WantBody: refused("forbidden", "ip_not_allowed")},
		}},
		{Name: "allowlist/proxy headers are not believed", Steps: []Step{{
			Method: "GET", Path: "agents/me", Key: ElsewhereKey,
			Header: http.Header{
				"X-Forwarded-For": {"192.0.2.1"}, "X-Real-Ip": {"192.0.2.1"},
				"Forwarded": {"for=192.0.2.1"}, "True-Client-Ip": {"192.0.2.1"},
			},
			Status: 403, WantBody: refused("forbidden", "ip_not_allowed"),
		}}},
		{Name: "allowlist/its address", Needs: Clients, Steps: []Step{
			{Method: "GET", Path: "agents/me", Key: Here, Status: 200, WantBody: me},
			{
				Method: "GET", Path: "agents/me", Key: Here, From: func(s *Session) netip.Addr { return s.Elsewhere() },
				Status: 403, WantBody: refused("forbidden", "ip_not_allowed"),
			},
		}},
		{Name: "scope/unknown path needs none", Steps: []Step{
			{Method: "GET", Path: "nothing", Key: NoScope, Status: 404, WantBody: refused("not_found", "")},
		}},
	}
	for i, e := range endpoints {
		lacking := e.step
		lacking.Key, lacking.Status = without(e.scope), 403
		lacking.WantBody = refused("forbidden", "insufficient_scope")
		none := lacking
		none.Key = NoScope
		enough := e.step
		enough.Key = only(e.scope)
		enough.Status = []int{200, 200, 200, 201, 404, 201}[i]
		enough.WantBody = []string{me, samples, noFirings, subscribed, refused("subscription_not_found", ""), anaLead}[i]
		cases = append(cases, Case{
			Name:  "scope/" + e.scope + " for " + e.step.Method + " " + e.step.Path,
			Steps: []Step{lacking, none, enough},
		})
	}
	return cases
}

func rateLimit() []Case {
	remaining := func(n int) Step {
		return Step{
			Method: "GET", Path: "agents/me", Key: Slow, Status: 200, WantBody: me,
			WantHeader: map[string]string{"X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": strconv.Itoa(n)},
		}
	}
	over := Step{
		Method: "GET", Path: "agents/me", Key: Slow, Status: 429,
		WantHeader: map[string]string{
			"Retry-After": "<int:1..20>", "X-Ratelimit-Limit": "3", "X-Ratelimit-Remaining": "0",
			"X-Ratelimit-Reset-Ms": "<int:1..60000>", "X-Svc-Environment": "live",
		},
		WantBody: `{"error":"rate_limited","reason":"rate_limited","retry_after_seconds":"<int:1..20>"}`,
	}
	spend := func(status int, step Step, body string) Step {
		step.Key, step.Status, step.WantBody = Slow, status, body
		return step
	}
	return []Case{
		{Name: "rate/limit reached", Steps: []Step{
			remaining(2), remaining(1), remaining(0), over, over,
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me},
		}},
		{Name: "rate/default is 100 a minute", Steps: []Step{{
			Method: "GET", Path: "agents/me", Status: 200, WantBody: me,
			WantHeader: map[string]string{"X-Ratelimit-Limit": "100", "X-Ratelimit-Remaining": "99"},
		}}},
		{Name: "rate/a burst of 100", Needs: Clock, Steps: []Step{
			{Method: "GET", Path: "agents/me", Times: 100, Status: 200, WantBody: me},
			{
				Method: "GET", Path: "agents/me", Status: 429,
				WantHeader: map[string]string{"Retry-After": "1", "X-Ratelimit-Reset-Ms": "60000"},
				WantBody:   `{"error":"rate_limited","reason":"rate_limited","retry_after_seconds":1}`,
			},
		}},
		{Name: "rate/tokens come back", Needs: Clock, Steps: []Step{
			remaining(2), remaining(1), remaining(0), over,
			func() Step {
				s := remaining(0)
				s.Before = func(s *Session) { s.target.Advance(20 * time.Second) }
				return s
			}(),
			over,
			func() Step {
				s := remaining(2)
				s.Before = func(s *Session) { s.target.Advance(time.Minute) }
				return s
			}(),
		}},
		{Name: "rate/errors spend too", Steps: []Step{
			spend(404, Step{Method: "GET", Path: "nothing"}, refused("not_found", "")),
			spend(405, Step{Method: "POST", Path: "agents/me"}, refused("method_not_allowed", "")),
			spend(400, Step{Method: "POST", Path: "leads", Body: `{}`}, refused("invalid_lead", "name_required")),
			over,
		}},
		{Name: "rate/before the route", Steps: []Step{
			remaining(2), remaining(1), remaining(0),
			func() Step { s := over; s.Path = "nothing"; return s }(),
		}},
		{Name: "rate/another address spends nothing", Needs: Clients, Steps: []Step{
			{
				Method: "GET", Path: "agents/me", Key: SlowHere, Times: 5, From: func(s *Session) netip.Addr { return s.Elsewhere() },
				Status: 403, WantBody: refused("forbidden", "ip_not_allowed"),
			},
			{
				Method: "GET", Path: "agents/me", Key: SlowHere, Status: 200, WantBody: me,
				WantHeader: map[string]string{"X-Ratelimit-Remaining": "2"},
			},
		}},
	}
}
