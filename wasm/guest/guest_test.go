package guest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"partneredge/wasm/abi"
	"partneredge/wasm/handlers"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

var (
	_ pipeline.Host          = Host{}
	_ handlers.Views         = Host{}
	_ handlers.Subscriptions = Host{}
	_ handlers.Outbox        = Host{}
)

// answering returns a host that answers every call with result, or with
// CodeShort if out is too small.
func answering(result []byte) func(abi.Op, []byte, []byte) int32 {
	return func(_ abi.Op, _, out []byte) int32 {
		if len(result) > len(out) {
			return int32(abi.CodeShort) - int32(len(result))
		}
		return int32(copy(out, result))
	}
}

func TestCallKeepsEarlierResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 40<<10), 1, 8).Draw(t, "sizes")
		room := make([]byte, 64<<10)
		c := caller{free: room}
		var got, want [][]byte
		for i, size := range sizes {
			result := bytes.Repeat([]byte{byte(i + 1)}, size)
			c.invoke = answering(result)
			b, err := c.call(abi.OpProfile, nil)
			if err != nil {
				t.Fatalf("call %d of %d bytes: %v", i, size, err)
			}
			got, want = append(got, b), append(want, result)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("result %d of %v has changed", i, sizes)
			}
		}
		c.reset(room)
		c.invoke = answering(make([]byte, len(room)))
		if b, err := c.call(abi.OpProfile, nil); err != nil || &b[0] != &room[0] {
			t.Fatalf("after a reset not all memory is free: %v", err)
		}
	})
}

func TestCallResults(t *testing.T) {
	short := int32(abi.CodeShort)
	for _, tt := range []struct {
		name    string
		results []int32 // what the host returns, the last again and again
		want    error
		size    int
		calls   int
	}{
		{"nothing", []int32{0}, nil, 0, 1},
		{"some", []int32{5}, nil, 5, 1},
		{"not found", []int32{-2}, abi.CodeNotFound, 0, 1},
		{"a code of later", []int32{-99}, abi.Code(-99), 0, 1},
		{"short, then fits", []int32{short - 70_000, 70_000}, nil, 70_000, 2},
		{"short, then less", []int32{short - 70_000, 3}, nil, 3, 2},
		{"grows between two calls", []int32{short - 70_000, short - 80_000, 80_000}, nil, 80_000, 3},
		{"short, then away", []int32{short - 70_000, -3}, abi.CodeUnavailable, 0, 2},
		{"grows for ever", []int32{short - 70_000}, abi.CodeFailed, 0, 1 + maxRetries},
		{"short of nothing", []int32{short}, abi.CodeFailed, 0, 1 + maxRetries},
		{"more than there is room for", []int32{1 << 30}, abi.CodeFailed, 0, 1},
	} {
		calls := 0
		c := caller{free: make([]byte, 64<<10), invoke: func(abi.Op, []byte, []byte) int32 {
			calls++
			return tt.results[min(calls, len(tt.results))-1]
		}}
		got, err := c.call(abi.OpKey, nil)
		if err != tt.want || len(got) != tt.size || calls != tt.calls {
			t.Errorf("%s: %d bytes, %v after %d calls; want %d, %v after %d", tt.name, len(got), err, calls, tt.size, tt.want, tt.calls)
		}
	}
}

// with sets the function that executes the package's calls until the test ends.
func with(t testing.TB, invoke func(abi.Op, []byte, []byte) int32) {
	before := state.host.invoke
	t.Cleanup(func() { state.host.invoke = before })
	state.host.invoke = invoke
	state.host.reset(make([]byte, 64<<10))
}

// TestHost checks that every method sends the frame that package abi defines for
// its operation, and parses the result.
func TestHost(t *testing.T) {
	number := binary.LittleEndian.AppendUint64(nil, 1500)
	key := abi.Key{ID: "key_1", Own: "x:quotes", Allowlist: []string{"::/0"}, Expires: 9}
	bucket := abi.Bucket{Allowed: true, Limit: 100, Remaining: 7}
	profile := abi.Profile{AgentID: "agt_1", FullName: "Ann"}
	insights := abi.Insights{History: true, Items: []abi.Insight{{ID: "ins_1"}}}
	firings := abi.Firings{More: true, Items: []abi.Firing{{ID: "fir_1", Data: []byte("{}")}}}
	subscription := abi.Subscription{ID: "whs_1", Events: []string{"sentinel.fired"}}
	subscribeOnce := abi.SubscribeOnce{Key: "a", Digest: "d", Subscription: subscription}
	subscribed := abi.Subscribed{Outcome: abi.Repeat, ID: "whs_0", Secret: "5e", Created: 7}
	lead := abi.Lead{ID: "lead_1", Email: "a@example.com"}
	once := abi.Once{Key: "a", Digest: "d", Lead: lead}
	kept := abi.Kept{Outcome: abi.Repeat, ID: "lead_0"}
	routes := route.Contract()
	window := "\x05\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00"
	for _, tt := range []struct {
		op     abi.Op
		sent   string
		result []byte
		call   func(Host) (any, error)
		want   any
	}{
		{abi.OpLockout, "::1", number, func(h Host) (any, error) { return h.Lockout("::1") }, int64(1500)},
		{abi.OpFailure, "::1", number, func(h Host) (any, error) { return h.Failure("::1") }, int64(1500)},
		{abi.OpKeyScopes, "token", key.Append(nil), func(h Host) (any, error) { return h.Key("token") }, key},
		{abi.OpRoutes, "", abi.Routes(routes).Append(nil), func(h Host) (any, error) { return h.Routes() }, abi.Routes(routes)},
		{abi.OpTake, "\x64\x00\x00\x00key_1", bucket.Append(nil), func(h Host) (any, error) { return h.Take("key_1", 100) }, bucket},
		{abi.OpProfile, "", profile.Append(nil), func(h Host) (any, error) { return h.Profile() }, profile},
		{abi.OpInsights, window, insights.Append(nil), func(h Host) (any, error) { var l abi.Insights; err := h.Insights(5, 3, &l); return l, err }, insights},
		{abi.OpFirings, window, firings.Append(nil), func(h Host) (any, error) { var l abi.Firings; err := h.Firings(5, 3, &l); return l, err }, firings},
		{abi.OpSubscribe, string(subscription.Append(nil)), []byte("host_not_public"), func(h Host) (any, error) { return h.Subscribe(&subscription) }, "host_not_public"},
		{abi.OpSubscribeOnce, string(subscribeOnce.Append(nil)), subscribed.Append(nil), func(h Host) (any, error) { return h.SubscribeOnce(&subscribeOnce) }, subscribed},
		{abi.OpRevoke, "whs_1", []byte{1}, func(h Host) (any, error) { return h.Revoke("whs_1") }, true},
		{abi.OpRevoke, "whs_1", []byte{0}, func(h Host) (any, error) { return h.Revoke("whs_1") }, false},
		{abi.OpLead, string(lead.Append(nil)), nil, func(h Host) (any, error) { return nil, h.Lead(&lead) }, nil},
		{abi.OpLeadOnce, string(once.Append(nil)), kept.Append(nil), func(h Host) (any, error) { return h.LeadOnce(&once) }, kept},
	} {
		var op abi.Op
		var sent string
		with(t, func(o abi.Op, frame, out []byte) int32 {
			op, sent = o, string(frame)
			return answering(tt.result)(o, frame, out)
		})
		got, err := tt.call(Host{})
		if err != nil || op != tt.op || sent != tt.sent || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("operation %d: sent %d %q, got %+v, %v; want %q and %+v", tt.op, op, sent, got, err, tt.sent, tt.want)
		}
		with(t, func(abi.Op, []byte, []byte) int32 { return int32(abi.CodeUnavailable) })
		if _, err := tt.call(Host{}); !errors.Is(err, abi.CodeUnavailable) {
			t.Errorf("operation %d: %v from a host that cannot tell, want %v", tt.op, err, abi.CodeUnavailable)
		}
		if tt.op == abi.OpSubscribe || tt.op == abi.OpLead {
			continue // their results have no layout
		}
		with(t, answering(append(tt.result, 0)))
		if _, err := tt.call(Host{}); err != abi.CodeFailed {
			t.Errorf("operation %d: %v for a result that is too long, want %v", tt.op, err, abi.CodeFailed)
		}
	}
}

func TestHandle(t *testing.T) {
	frame := (&abi.Request{Method: "GET", Path: "/x", Headers: []abi.Header{{Name: "a", Value: "b"}}}).Append(nil)
	n := int32(copy(input[:], frame))
	if handle(n) != nil {
		t.Error("a module without a handler answers")
	}
	t.Cleanup(func() { handler = nil })
	Handle(func(req *abi.Request, resp *abi.Response) {
		if len(resp.Body) != 0 || len(resp.Headers) != 0 || resp.Status != 0 {
			t.Errorf("the response is not empty: %+v", resp)
		}
		resp.Status, resp.Headers = 200, append(resp.Headers, req.Headers...)
		resp.Body = append(resp.Body, strings.Repeat(req.Path, 9000)...)
	})
	for range 2 {
		var resp abi.Response
		if err := resp.Parse(handle(n)); err != nil || resp.Status != 200 || len(resp.Body) != 18_000 || len(resp.Headers) != 1 {
			t.Errorf("answered %d with %d bytes and %v, %v", resp.Status, len(resp.Body), resp.Headers, err)
		}
	}
	for _, n := range []int32{-1, 0, n - 1, n + 1, int32(len(input)) + 1, -1 << 31} {
		if handle(n) != nil {
			t.Errorf("%d bytes were parsed as a request", n)
		}
	}
}

// FuzzHandle checks that any input is refused or answered with one whole frame.
func FuzzHandle(f *testing.F) {
	f.Add((&abi.Request{Method: "GET", Path: "/"}).Append(nil))
	f.Add((&abi.Request{Headers: []abi.Header{{Name: "authorization", Value: "Bearer x"}}, Body: []byte("{}")}).Append(nil))
	f.Add([]byte{abi.Version})
	f.Add([]byte{abi.Version + 1, 0, 0, 0})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	gate := pipeline.Pipeline{Routes: route.ContractTable()}
	handler = func(req *abi.Request, resp *abi.Response) { gate.Handle(req, resp, Host{}) }
	f.Cleanup(func() { handler = nil })
	f.Fuzz(func(t *testing.T, frame []byte) {
		out := handle(int32(copy(input[:], frame)))
		if out == nil {
			return
		}
		var resp abi.Response
		if err := resp.Parse(out); err != nil {
			t.Fatalf("answered %q: %v", out, err)
		}
		// Outside a sandbox nothing is granted, so no request can pass.
		if resp.Status != 500 || resp.Handler != "" {
			t.Fatalf("answered %d, handler %q", resp.Status, resp.Handler)
		}
	})
}
