package contract

import (
	"strconv"
	"time"
)

func authorization() []Case {
	elsewhere := get("agents/me", 403, notHere).as(ElsewhereKey)
	cases := []Case{
		rule("allowlist/another address", elsewhere),
		rule("allowlist/proxy headers are not believed", elsewhere.
			with("X-Forwarded-For", "192.0.2.1").with("X-Real-Ip", "192.0.2.1").
			with("Forwarded", "for=192.0.2.1").with("True-Client-Ip", "192.0.2.1")),
		rule("allowlist/its address",
			meOK.as(Here), get("agents/me", 403, notHere).as(Here).elsewhere()).needs(Clients),
		rule("scope/unknown path needs none", get("nothing", 404, notFound).as(NoScope)),
	}
	for _, e := range endpoints {
		lacking := e.step.answers(403, noScope)
		cases = append(cases, rule("scope/"+e.scope+" for "+e.step.Method+" "+e.step.Path,
			lacking.as(without(e.scope)), lacking.as(NoScope), e.step.as(only(e.scope))))
	}
	return cases
}

func rateLimit() []Case {
	remaining := func(n int) Step {
		return meOK.as(Slow).wants("X-Ratelimit-Limit", "3").wants("X-Ratelimit-Remaining", strconv.Itoa(n))
	}
	over := get("agents/me", 429, `{"error":"rate_limited","reason":"rate_limited","retry_after_seconds":"<int:1..20>"}`).as(Slow).
		wants("Retry-After", "<int:1..20>").wants("X-Ratelimit-Limit", "3").wants("X-Ratelimit-Remaining", "0").
		wants("X-Ratelimit-Reset-Ms", "<int:1..60000>").wants("X-Svc-Environment", "live")
	overUnknown := over
	overUnknown.Path = "nothing"
	return []Case{
		rule("rate/limit reached", remaining(2), remaining(1), remaining(0), over, over, meOK),
		rule("rate/default is 100 a minute",
			meOK.wants("X-Ratelimit-Limit", "100").wants("X-Ratelimit-Remaining", "99")),
		rule("rate/a burst of 100",
			meOK.times(100),
			get("agents/me", 429, `{"error":"rate_limited","reason":"rate_limited","retry_after_seconds":1}`).
				wants("Retry-After", "1").wants("X-Ratelimit-Reset-Ms", "60000")).needs(Clock),
		rule("rate/tokens come back",
			remaining(2), remaining(1), remaining(0), over,
			remaining(0).after(20*time.Second), over,
			remaining(2).after(time.Minute)).needs(Clock),
		rule("rate/errors spend too",
			get("nothing", 404, notFound).as(Slow),
			post("agents/me", "", 405, refused("method_not_allowed", "")).as(Slow),
			post("leads", `{}`, 400, refused("invalid_lead", "name_required")).as(Slow),
			over),
		rule("rate/before the route", remaining(2), remaining(1), remaining(0), overUnknown),
		rule("rate/another address spends nothing",
			get("agents/me", 403, notHere).as(SlowHere).elsewhere().times(5),
			meOK.as(SlowHere).wants("X-Ratelimit-Remaining", "2")).needs(Clients),
	}
}
