package contract

import (
	"strings"
	"time"
)

const maxBody = 64 << 10

// padded is a lead of exactly size bytes.
func padded(size int) string {
	const head, tail = `{"name":"Ana Lima","email":"ana@example.com","padding":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

// requests are the rules of any request: paths, methods, sizes.
func requests() []Case {
	var cases []Case
	for _, path := range []string{
		"nothing", "agents", "agents/me/", "agents/ME", "agents/you", "coaching", "leads/1", "/api/v2/public/", "/api/v2/public",
		"/api/v1/public/agents/me", "/api/v2/private/agents/me", "/agents/me", "/api/v2/public//agents/me",
		"/api/v2/public/webhooks/a/b", "/api/v2/public/agents%2Fme",
	} {
		cases = append(cases, Case{Name: "path/unknown " + path, Steps: []Step{
			{Method: "GET", Path: path, Status: 404, WantBody: refused("not_found", "")},
		}})
	}
	cases = append(cases, Case{Name: "path/unknown, without a key", Needs: Clients, Steps: []Step{
		{Method: "GET", Path: "nothing", Key: NoKey, Status: 401, WantBody: refused("unauthorized", "missing_bearer_token")},
		{Method: "POST", Path: "agents/me", Key: NoKey, Status: 401, WantBody: refused("unauthorized", "missing_bearer_token")},
	}})
	for _, c := range []struct{ method, path, allow string }{
		{"POST", "agents/me", "GET"}, {"PUT", "agents/me", "GET"}, {"DELETE", "coaching/insights", "GET"},
		{"PATCH", "sentinels/firings", "GET"}, {"GET", "webhooks/subscribe", "POST"}, {"DELETE", "webhooks/subscribe", "POST"},
		{"GET", "webhooks/whs_01h455vb4pex5vsknk084sn02q", "DELETE"}, {"GET", "leads", "POST"}, {"OPTIONS", "leads", "POST"},
		{"BREW", "leads", "POST"},
	} {
		cases = append(cases, Case{Name: "method/" + c.method + " " + c.path, Steps: []Step{{
			Method: c.method, Path: c.path, Status: 405,
			WantHeader: map[string]string{"Allow": c.allow}, WantBody: refused("method_not_allowed", ""),
		}}})
	}
	return append(cases,
		Case{Name: "size/64 KiB", Steps: []Step{
			{Method: "POST", Path: "leads", Key: Test, Body: padded(maxBody), Status: 201, WantBody: testLead},
		}},
		Case{Name: "size/a byte more", Steps: []Step{
			{Method: "POST", Path: "leads", Key: Test, Body: padded(maxBody + 1), Status: 413, WantBody: refused("payload_too_large", "")},
			{Method: "POST", Path: "webhooks/subscribe", Body: padded(maxBody + 1), Status: 413, WantBody: refused("payload_too_large", "")},
		}},
		Case{Name: "size/three times as much", Steps: []Step{
			{Method: "POST", Path: "leads", Key: Test, Body: padded(3 * maxBody), Status: 413, WantBody: refused("payload_too_large", "")},
		}},
		Case{Name: "size/without a key", Needs: Clients, Steps: []Step{{
			Method: "POST", Path: "leads", Key: NoKey, Body: padded(maxBody + 1),
			Status: 401, WantBody: refused("unauthorized", "missing_bearer_token"),
		}}},
	)
}

// outages are what is answered while the target cannot ask.
func outages() []Case {
	begin := func(s *Session) { s.Set("token", s.Token(Live)); s.T.Cleanup(s.target.Outage(s.T)) }
	internal := func(step Step) Step {
		step.Status, step.WantBody = 500, refused("internal_error", "")
		step.WantHeader = map[string]string{"Retry-After": "<int:1..60>"}
		return step
	}
	subscription := endpoints[3].step
	first := internal(subscription)
	first.Before = begin
	return []Case{
		{Name: "outage/a write", Needs: Outage, Steps: []Step{
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me}, // the key is known from here on
			first,
		}},
		{Name: "outage/a revocation", Needs: Outage, Steps: []Step{
			{Method: "POST", Path: "webhooks/subscribe", Body: subscription.Body, Status: 201, WantBody: subscribed},
			internal(Step{Before: begin, Method: "DELETE", Path: "webhooks/$(id)"}),
		}},
		{Name: "outage/a key that is not held is not called unknown", Needs: Outage | Clients, Steps: []Step{
			internal(Step{Before: begin, Method: "GET", Path: "agents/me", Header: authorize("Bearer " + unknown())}),
		}},
		{Name: "outage/it ends", Needs: Outage, Steps: []Step{
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: me},
			{
				Before: func(s *Session) { s.target.Outage(s.T)() },
				Method: "POST", Path: "webhooks/subscribe", Body: subscription.Body, Within: 10 * time.Second,
				Status: 201, WantBody: subscribed,
			},
		}},
	}
}
