package guest

import (
	"fmt"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
	"partneredge/wasm/handlers/agents"
	"partneredge/wasm/handlers/coaching"
	"partneredge/wasm/handlers/leads"
	"partneredge/wasm/handlers/sentinels"
	"partneredge/wasm/handlers/webhooks"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

// served returns what a module that serves handle does with a request.
func served[H any](handle func(*abi.Request, *abi.Response, H)) func(*abi.Request, *abi.Response) {
	handler = nil
	Serve(handle)
	return handler
}

// BenchmarkModules has the gate and the handlers answer each kind of request natively,
// with fixed answers of the host. Its profile is wasm/modules.pgo, by which the
// compiler optimizes modules: `make guest-profile`.
func BenchmarkModules(b *testing.B) {
	b.Cleanup(func() { handler = nil })
	gate := served(pipeline.Pipeline{Routes: route.ContractTable()}.Handle)
	subscribe := `{"target_url":"https://hooks.example.com/crm?source=edge","events":["deal.stage_changed","goal.pace_changed"],"description":"CRM sync"}`
	lead := `{"name":"Ada Lovelace","email":"ada@example.com","phone":"+1 512 555 0100",` +
		`"consent":{"status":"express_written","text_snapshot":"Yes, call me about my house.","captured_at":"2026-03-02T14:00:00Z"}}`
	for _, bm := range []struct {
		name    string
		handler func(*abi.Request, *abi.Response) // nil: the gate answers by itself
		request abi.Request
		change  map[abi.Op][]byte // answers of the host that differ
		status  int
	}{
		{"agents", served(agents.Handle), abi.Request{Method: "GET", Path: "/api/v2/public/agents/me"}, nil, 200},
		{"coaching", served(coaching.Handle), abi.Request{Method: "GET", Path: "/api/v2/public/coaching/insights", Query: "limit=20"}, nil, 200},
		{"sentinels", served(sentinels.Handle), abi.Request{Method: "GET", Path: "/api/v2/public/sentinels/firings", Query: "limit=20"}, nil, 200},
		{"subscribe", served(webhooks.Handle), abi.Request{Method: "POST", Path: "/api/v2/public/webhooks/subscribe", Body: []byte(subscribe)}, nil, 201},
		{"revoke", served(webhooks.Handle), abi.Request{Method: "DELETE", Path: "/api/v2/public/webhooks/whs_01m7y7cjnpfhha5fb5cr7tb0a3",
			Params: []abi.Param{{Name: "id", Value: "whs_01m7y7cjnpfhha5fb5cr7tb0a3"}}}, nil, 200},
		{"lead", served(leads.Handle), abi.Request{Method: "POST", Path: "/api/v2/public/leads", Body: []byte(lead)}, nil, 201},
		{"limited", nil, abi.Request{Method: "GET", Path: "/api/v2/public/agents/me"},
			map[abi.Op][]byte{abi.OpTake: (&abi.Bucket{Limit: 100, RetryMS: 600}).Append(nil)}, 429},
	} {
		b.Run(bm.name, func(b *testing.B) {
			with(b, hostAnswers(bm.change))
			before := bm.request
			before.Params = nil
			before.Now, before.Client = benchNow, "192.0.2.1"
			before.Headers = []abi.Header{{Name: "authorization", Value: "Bearer " + apikey.Mint(abi.EnvLive, &[apikey.RandomSize]byte{1, 2, 3})}}
			after := bm.request
			after.Now, after.Client, after.Random = benchNow, "192.0.2.1", [32]byte{4, 5, 6}
			after.Principal = abi.Principal{KeyID: "key_01m7y7cjeee19r0rxaxz0mcm29", AccountID: "acc_01m7y7cjecfz6v3mt3598jeyn9",
				Environment: abi.EnvLive, Scopes: abi.AllScopes}
			toGate, toHandler := before.Append(nil), after.Append(nil)
			var passed, answer abi.Response
			for b.Loop() {
				handler = gate
				if err := passed.Parse(handle(int32(copy(input, toGate)))); err != nil {
					b.Fatal(err)
				}
				if bm.handler == nil {
					answer.Status = passed.Status
					continue
				}
				handler = bm.handler
				if err := answer.Parse(handle(int32(copy(input, toHandler)))); err != nil {
					b.Fatal(err)
				}
			}
			if answer.Status != bm.status || bm.handler != nil && passed.Handler == "" {
				b.Fatalf("the gate answered %d, the handler %d %s; want %d", passed.Status, answer.Status, answer.Body, bm.status)
			}
		})
	}
}

const benchNow = 1_772_460_311_000_000

// hostAnswers returns a host that has the same answer for all calls of an operation,
// of which change replaces some.
func hostAnswers(change map[abi.Op][]byte) func(abi.Op, []byte, []byte) int32 {
	key := abi.Key{ID: "key_01m7y7cjeee19r0rxaxz0mcm29", AccountID: "acc_01m7y7cjecfz6v3mt3598jeyn9", Environment: abi.EnvLive,
		Scopes: abi.AllScopes, RateLimit: 100}
	insights, firings := abi.Insights{History: true}, abi.Firings{More: true}
	for i := range int64(20) {
		insights.Items = append(insights.Items, abi.Insight{ID: fmt.Sprint("ins_01m7y7cjhhe5kr0ze4b729qk3", i),
			Headline: "Call back within five minutes", Detail: "Leads called back within five minutes book twice as many \"showings\".",
			Created: benchNow - i*3_600_123_456})
		firings.Items = append(firings.Items, abi.Firing{ID: fmt.Sprint("fir_01m7y7cjhve0k9gv01zw3gde4", i), Name: "stale_lead",
			Action: "task_created", Triggered: benchNow - i*3_600_123_456, Data: []byte(`{"days_quiet":9}`)})
	}
	answers := map[abi.Op][]byte{
		abi.OpLockout:   make([]byte, 8),
		abi.OpKeyScopes: key.Append(nil),
		abi.OpTake:      (&abi.Bucket{Allowed: true, Limit: 100, Remaining: 99, ResetMS: 600}).Append(nil),
		abi.OpProfile: (&abi.Profile{AgentID: "agt_01m7y7cjecexyv1veqjc683jjp", Email: "dana@example.com", FullName: "Dana Reyes",
			Joined: benchNow, AccountID: key.AccountID, AccountName: "Reyes Realty", Mode: "live"}).Append(nil),
		abi.OpInsights:      insights.Append(nil),
		abi.OpFirings:       firings.Append(nil),
		abi.OpSubscribe:     {},
		abi.OpSubscribeOnce: (&abi.Subscribed{Outcome: abi.New, ID: "whs_01m7y7cjnpfhha5fb5cr7tb0a3", Created: benchNow}).Append(nil),
		abi.OpRevoke:        {0},
		abi.OpLead:          {},
		abi.OpLeadOnce:      (&abi.Kept{Outcome: abi.New, ID: "lead_01m7y7cjm1ew6t6f1wh76exrr3"}).Append(nil),
	}
	for op, answer := range change {
		answers[op] = answer
	}
	return func(op abi.Op, _, out []byte) int32 {
		answer, ok := answers[op]
		if !ok {
			return int32(abi.CodeDenied)
		}
		return int32(copy(out, answer))
	}
}
