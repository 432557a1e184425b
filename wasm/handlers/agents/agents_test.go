package agents

import (
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

func TestHandle(t *testing.T) {
	backend := fake.New(func() int64 { return 0 })
	backend.AddAccount(abi.Profile{
		AgentID: "agt_1", Email: "zoë@example.com", FullName: "Zoë \"Z\"\n", Joined: 1_750_000_000_000_001,
		AccountID: "acc_1", AccountName: "A\u2028B\xff", Mode: "live",
	})
	var resp abi.Response
	Handle(&abi.Request{}, &resp, backend.For(abi.Principal{AccountID: "acc_1"}))
	want := `{"agent":{"id":"agt_1","email":"zoë@example.com","full_name":"Zoë \"Z\"\n","joined_at":"2025-06-15T15:06:40.000001Z"},` +
		`"account":{"id":"acc_1","name":"A` + "\u2028" + `B` + "\ufffd" + `","activation_mode":"live"},"api_version":"v2"}`
	if resp.Status != 200 || string(resp.Body) != want {
		t.Errorf("%d %s, want\n%s", resp.Status, resp.Body, want)
	}

	for _, code := range []abi.Code{abi.CodeNotFound, abi.CodeUnavailable} {
		backend.Fail(abi.OpProfile, code)
		resp := abi.Response{}
		Handle(&abi.Request{}, &resp, backend.For(abi.Principal{AccountID: "acc_1"}))
		if resp.Status != 500 || string(resp.Body) != `{"error":"internal_error"}` || len(resp.Headers) != 1 {
			t.Errorf("%v: %d %s", code, resp.Status, resp.Body)
		}
	}
}
