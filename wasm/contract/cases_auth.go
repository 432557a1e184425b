package contract

import (
	"strings"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

// refused returns the body of an error, without a reason if it is "".
func refused(code, reason string) string {
	if reason == "" {
		return `{"error":"` + code + `"}`
	}
	return `{"error":"` + code + `","reason":"` + reason + `"}`
}

var (
	noToken  = refused("unauthorized", "missing_bearer_token")
	notFound = refused("not_found", "")
	notHere  = refused("forbidden", "ip_not_allowed")
	noScope  = refused("forbidden", "insufficient_scope")

	meOK = get("agents/me", 200, me)
)

// unauthorized is a step that fails to authenticate. authorization are the
// values of the header.
func unauthorized(reason string, authorization ...string) Step {
	return get("agents/me", 401, refused("unauthorized", reason)).as(NoKey).with("Authorization", authorization...)
}

// unknown returns a well-formed key that does not exist.
func unknown() string {
	var random [apikey.RandomSize]byte
	for i := range random {
		random[i] = byte(i * 7 % 248)
	}
	return apikey.Mint(abi.EnvLive, &random)
}

// endpoints are the six endpoints, each with the scope that it needs and a
// request that it answers.
var endpoints = []struct {
	scope string
	step  Step
}{
	{"read:agent", meOK},
	{"read:coaching", get("coaching/insights", 200, samples)},
	{"read:sentinels", get("sentinels/firings", 200, noFirings)},
	{"write:webhooks", post("webhooks/subscribe", hookBody, 201, subscribed)},
	{"write:webhooks", remove("webhooks/whs_01h455vb4pex5vsknk084sn02q", 404, refused("subscription_not_found", ""))},
	{"write:leads", post("leads", ana, 201, anaLead)},
}

// setToken sets $(token) to the plaintext of the key Live.
func setToken(s *Session) { s.Set("token", s.Token(Live)) }

func authentication() []Case {
	return []Case{
		rule("auth/scheme in any case",
			meOK.with("Authorization", "bearer $(token)"),
			meOK.with("Authorization", "BEARER $(token)")).setup(setToken),
		rule("auth/key in grace", meOK.as(InGraceKey)),
		rule("auth/revoked while in use",
			meOK,
			get("agents/me", 401, refused("unauthorized", "api_key_revoked")).within(time.Minute).
				before(func(s *Session) { s.target.Fixture.RevokeKey(s.T, s.Token(Live)) }),
			meOK.as(Second)).needs(Clients),
		rule("auth/expires while in use",
			meOK,
			get("agents/me", 401, refused("unauthorized", "api_key_expired")).after(366*24*time.Hour)).needs(Clock),
		rule("auth/grace ends while in use",
			meOK.as(InGraceKey),
			get("agents/me", 401, refused("unauthorized", "api_key_grace_expired")).as(InGraceKey).after(8*24*time.Hour)).needs(Clock),
		rule("auth/key in the query is no key",
			get("agents/me?api_key=$(token)&access_token=$(token)", 401, noToken).as(NoKey)).setup(setToken).needs(Clients),
		rule("auth/another environment's prefix", unauthorized("malformed_api_key", "Bearer $(token)")).needs(Clients).
			setup(func(s *Session) { s.Set("token", strings.Replace(s.Token(Live), "svc_live_", "svc_test_", 1)) }),
		rule("auth/one character changed", unauthorized("malformed_api_key", "Bearer $(token)")).needs(Clients).
			setup(func(s *Session) {
				token := []byte(s.Token(Live))
				if token[20]++; token[20] == 'z'+1 || token[20] == 'Z'+1 || token[20] == '9'+1 {
					token[20] = 'a'
				}
				s.Set("token", string(token))
			}),
		rule("auth/two headers", unauthorized("malformed_api_key", "Bearer $(token)", "Bearer $(token)")).setup(setToken).needs(Clients),
		rule("auth/two keys in one header", unauthorized("malformed_api_key", "Bearer $(token), Bearer $(token)")).setup(setToken).needs(Clients),
	}
}

// authorizationHeaders are the values of the header that are refused.
func authorizationHeaders() (cases []Case) {
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
		cases = append(cases, rule("auth/"+c.name, unauthorized(c.reason, c.value)).needs(Clients))
	}
	for _, c := range []struct {
		key    Role
		reason string
	}{
		{RevokedKey, "api_key_revoked"}, {ExpiredKey, "api_key_expired"}, {GraceOver, "api_key_grace_expired"},
	} {
		cases = append(cases, rule("auth/"+string(c.key)+" key",
			get("agents/me", 401, refused("unauthorized", c.reason)).as(c.key)).needs(Clients))
	}
	for _, e := range endpoints {
		cases = append(cases, rule("auth/no key, "+e.step.Method+" "+e.step.Path,
			e.step.as(NoKey).answers(401, noToken)).needs(Clients))
	}
	return cases
}

func lockout() []Case {
	const lockedOut = `{"error":"too_many_failed_attempts","reason":"ip_locked_out","retry_after_seconds":"<int:1..900>"}`
	failure := unauthorized("unknown_api_key", "Bearer "+unknown())
	locked := get("agents/me", 403, lockedOut).wants("Retry-After", "<int:1..900>")
	return []Case{
		rule("lockout/after 20 failures",
			failure.times(20), locked, locked.as(NoKey), meOK.elsewhere()).needs(Clients),
		rule("lockout/not after 19", failure.times(19), meOK).needs(Clients),
		rule("lockout/ends",
			failure.times(20), locked,
			get("agents/me", 403, strings.Replace(lockedOut, `"<int:1..900>"`, `60`, 1)).wants("Retry-After", "60").after(14*time.Minute),
			meOK.after(time.Minute)).needs(Clients | Clock),
		rule("lockout/failures grow old",
			failure.times(19), failure.after(5*time.Minute+time.Second), meOK).needs(Clients | Clock),
		rule("lockout/keys that were good do not count",
			get("agents/me", 401, refused("unauthorized", "api_key_expired")).as(ExpiredKey).times(21),
			get("agents/me", 401, refused("unauthorized", "api_key_grace_expired")).as(GraceOver).times(21),
			meOK).needs(Clients),
		rule("lockout/requests without a key do not count",
			get("agents/me", 401, noToken).as(NoKey).times(25), meOK).needs(Clients),
		rule("lockout/refusals do not count",
			get("agents/me", 403, noScope).as(NoScope).times(25),
			get("agents/me", 403, notHere).as(ElsewhereKey).times(25),
			meOK).needs(Clients),
	}
}
