package contract

import (
	"strings"
	"time"
)

const maxBody = 64 << 10

// padded returns a lead of size bytes.
func padded(size int) string {
	const head, tail = `{"name":"Ana Lima","email":"ana@example.com","padding":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

// requests are the rules of every request: paths, methods, sizes.
func requests() []Case {
	var cases []Case
	for _, path := range []string{
		"nothing", "agents", "agents/me/", "agents/ME", "agents/you", "coaching", "leads/1", "/api/v2/public/", "/api/v2/public",
		"/api/v1/public/agents/me", "/api/v2/private/agents/me", "/agents/me", "/api/v2/public//agents/me",
		"/api/v2/public/webhooks/a/b", "/api/v2/public/agents%2Fme",
	} {
		cases = append(cases, rule("path/unknown "+path, get(path, 404, notFound)))
	}
	for _, c := range []struct{ method, path, allow string }{
		{"POST", "agents/me", "GET"}, {"PUT", "agents/me", "GET"}, {"DELETE", "coaching/insights", "GET"},
		{"PATCH", "sentinels/firings", "GET"}, {"GET", "webhooks/subscribe", "POST"}, {"DELETE", "webhooks/subscribe", "POST"},
		{"GET", "webhooks/whs_01h455vb4pex5vsknk084sn02q", "DELETE"}, {"GET", "webhooks", "DELETE"}, {"POST", "webhooks/", "DELETE"},
		{"GET", "leads", "POST"}, {"OPTIONS", "leads", "POST"},
		{"BREW", "leads", "POST"},
	} {
		cases = append(cases, rule("method/"+c.method+" "+c.path, Step{
			Method: c.method, Path: c.path, Status: 405, WantBody: refused("method_not_allowed", ""),
		}.wants("Allow", c.allow)))
	}
	for _, c := range []struct{ method, path string }{
		{"GET", "agents/me"}, {"GET", "coaching/insights"}, {"GET", "sentinels/firings"},
		{"POST", "leads"}, {"POST", "webhooks/subscribe"}, {"DELETE", "webhooks/whs_01h455vb4pex5vsknk084sn02q"},
	} {
		cases = append(cases, rule("size/headers too large, "+c.path, Step{
			Method: c.method, Path: c.path, Status: 431, WantBody: refused("header_too_large", ""),
		}.with("X-Padding", strings.Repeat("x", 17<<10))))
	}
	preflight := Step{Method: "OPTIONS", Path: "leads", Status: 403, WantBody: refused("cors_not_allowed", "keys_do_not_belong_in_browsers")}.
		with("Origin", "https://shop.example").with("Access-Control-Request-Method", "POST")
	tooLarge := refused("payload_too_large", "")
	return append(cases,
		rule("path/unknown, without a key",
			get("nothing", 401, noToken).as(NoKey), post("agents/me", "", 401, noToken).as(NoKey)).needs(Clients),
		rule("cors/preflight", preflight, preflight.as(NoKey)),
		rule("size/64 KiB", post("leads", padded(maxBody), 201, testLead).as(Test)),
		rule("size/a byte more",
			post("leads", padded(maxBody+1), 413, tooLarge).as(Test),
			post("webhooks/subscribe", padded(maxBody+1), 413, tooLarge)),
		rule("size/three times as much", post("leads", padded(3*maxBody), 413, tooLarge).as(Test)),
		rule("size/headers that fit", meOK.with("X-Padding", strings.Repeat("x", 15<<10))),
		rule("size/without a key", post("leads", padded(maxBody+1), 401, noToken).as(NoKey)).needs(Clients),
	)
}

// outages are the answers while the target cannot reach its origin.
func outages() []Case {
	begin := func(s *Session) { s.Set("token", s.Token(Live)); s.T.Cleanup(s.target.Outage(s.T)) }
	internal := func(step Step) Step {
		return step.answers(500, refused("internal_error", "")).wants("Retry-After", "<int:1..60>")
	}
	subscribe := post("webhooks/subscribe", hookBody, 201, subscribed)
	return []Case{
		rule("outage/a write",
			meOK, // from here on the target holds the key
			internal(subscribe).before(begin)).needs(Outage),
		rule("outage/a revocation",
			subscribe, internal(remove("webhooks/$(id)", 0, "")).before(begin)).needs(Outage),
		rule("outage/a key that is not held is not called unknown",
			internal(get("agents/me", 0, "")).with("Authorization", "Bearer "+unknown()).before(begin)).needs(Outage | Clients),
		rule("outage/it ends",
			meOK,
			subscribe.within(time.Minute).before(func(s *Session) { s.target.Outage(s.T)() })).needs(Outage),
	}
}
