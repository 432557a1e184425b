package node

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestRequestsAreKept: the origin finds requests at a node by the id that the answer
// had, and by key and account. Nothing that was sent is kept.
func TestRequestsAreKept(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", nil)
	n := startNode(t, config(t, o))
	send := func(method, path, key string) (id string) {
		t.Helper()
		req := must(http.NewRequestWithContext(t.Context(), method, n.URL()+path, strings.NewReader(`{"name":"Sam Secret"}`)))(t)
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		resp := must(http.DefaultClient.Do(req))(t)
		resp.Body.Close()
		return resp.Header.Get("X-Request-Id")
	}
	query := func(req wire.RequestsRequest) (reply wire.RequestsReply, text string) {
		t.Helper()
		req.V = wire.Version
		inbox := wire.Subject(testNode, wire.VerbRequests) + "." + nats.NewInbox()[7:]
		sub := must(o.conn.SubscribeSync(inbox))(t)
		if err := o.conn.PublishRequest(wire.ToNode+testNode+"."+wire.VerbRequests, inbox, must(json.Marshal(req))(t)); err != nil {
			t.Fatal(err)
		}
		m := must(sub.NextMsg(time.Minute))(t)
		return read[wire.RequestsReply](t, m.Data), string(m.Data)
	}
	for _, tt := range []struct {
		method, path, key string
		want              wire.AnsweredRequest
	}{
		{"GET", "/api/v2/public/agents/me?mail=sam@secret.example", key, wire.AnsweredRequest{KeyID: "key_1", AccountID: "acc_1", Method: "GET", Route: "/api/v2/public/agents/me", Status: 200}},
		{"POST", "/api/v2/public/leads", key, wire.AnsweredRequest{KeyID: "key_1", AccountID: "acc_1", Method: "POST", Route: "/api/v2/public/leads", Status: 400, Code: "invalid_lead", Reason: "contact_required"}},
		{"DELETE", "/api/v2/public/webhooks/sam@secret.example", key, wire.AnsweredRequest{KeyID: "key_1", AccountID: "acc_1", Method: "DELETE", Route: "/api/v2/public/webhooks/{id}", Status: 404, Code: "subscription_not_found"}},
		{"PUT", "/api/v2/public/leads", key, wire.AnsweredRequest{KeyID: "key_1", AccountID: "acc_1", Method: "PUT", Route: "/api/v2/public/leads", Status: 405, Code: "method_not_allowed"}},
		{"GET", "/api/v2/public/people/sam@secret.example", key, wire.AnsweredRequest{KeyID: "key_1", AccountID: "acc_1", Method: "GET", Status: 404, Code: "not_found"}},
		{"GET", "/api/v2/public/agents/me", "svc_live_secret", wire.AnsweredRequest{Method: "GET", Route: "/api/v2/public/agents/me", Status: 401, Code: "unauthorized", Reason: "malformed_api_key"}},
		{"SAM", "/secret", "", wire.AnsweredRequest{Method: "_OTHER", Status: 401, Code: "unauthorized", Reason: "missing_bearer_token"}},
	} {
		id := send(tt.method, tt.path, tt.key)
		reply, text := query(wire.RequestsRequest{ID: id})
		if len(reply.Requests) != 1 {
			t.Fatalf("%s %s, %s: %s", tt.method, tt.path, id, text)
		}
		got := reply.Requests[0]
		if got.At.IsZero() || got.TookUS <= 0 || got.ID != id {
			t.Errorf("%s %s: %+v", tt.method, tt.path, got)
		}
		got.ID, got.At, got.TookUS = "", time.Time{}, 0
		if got != tt.want {
			t.Errorf("%s %s: %+v, want %+v", tt.method, tt.path, got, tt.want)
		}
	}
	for _, req := range []wire.RequestsRequest{{KeyID: "key_1"}, {AccountID: "acc_1"}} {
		reply, text := query(req)
		if len(reply.Requests) != 5 || reply.Requests[4].Status != 200 {
			t.Errorf("of %+v: %s", req, text)
		}
		if strings.Contains(strings.ToLower(text), "secret") || strings.Contains(text, key) {
			t.Errorf("the log holds what was sent: %s", text)
		}
	}
	if reply, _ := query(wire.RequestsRequest{AccountID: "acc_1", Limit: 2}); len(reply.Requests) != 2 || reply.Requests[0].Status != 404 {
		t.Errorf("two at most: %+v", reply)
	}
	if reply, _ := query(wire.RequestsRequest{ID: "req_00000000000000000000000000"}); len(reply.Requests) != 0 {
		t.Errorf("found %+v", reply)
	}
}
