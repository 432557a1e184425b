package sentinels

import (
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

const start = int64(1_750_000_000_000_000) // 2025-06-15T15:06:40Z

func TestHandle(t *testing.T) {
	backend := fake.New(func() int64 { return start })
	backend.AddAccount(abi.Profile{AccountID: "acc_1"})
	get := func(query string) (resp abi.Response) {
		Handle(&abi.Request{Query: query}, &resp, backend.For(abi.Principal{AccountID: "acc_1"}))
		return resp
	}
	if resp := get(""); string(resp.Body) != `{"firings":[],"count":0,"next_cursor":null,"limit":25}` {
		t.Errorf("none: %s", resp.Body)
	}
	for _, it := range []abi.Firing{
		{ID: "fir_1", Name: "a", Action: "x", Triggered: start, Data: []byte(`{"k":[1,"\u00e9"]}`)},
		{ID: "fir_2", Name: "b", Action: "y", Triggered: start, Data: nil}, // a microsecond later, for want of another
	} {
		if _, err := backend.AddFiring("acc_1", it); err != nil {
			t.Fatal(err)
		}
	}
	const (
		one = `{"id":"fir_1","sentinel_name":"a","triggered_at":"2025-06-15T15:06:40.000000Z","trigger_data":{"k":[1,"\u00e9"]},"action_taken":"x"}`
		two = `{"id":"fir_2","sentinel_name":"b","triggered_at":"2025-06-15T15:06:40.000001Z","trigger_data":{},"action_taken":"y"}`
	)
	for query, want := range map[string]string{
		"":        `{"firings":[` + two + `,` + one + `],"count":2,"next_cursor":null,"limit":25}`,
		"limit=2": `{"firings":[` + two + `,` + one + `],"count":2,"next_cursor":null,"limit":2}`,
		"limit=1": `{"firings":[` + two + `],"count":1,"next_cursor":"2025-06-15T15:06:40.000001Z","limit":1}`,
		"limit=1&cursor=2025-06-15T15:06:40.000001Z": `{"firings":[` + one + `],"count":1,"next_cursor":null,"limit":1}`,
		"cursor=2025-06-15T15:06:40Z&limit=101":      `{"firings":[],"count":0,"next_cursor":null,"limit":100}`,
		// A firing within the cursor's microsecond is before a cursor that is finer.
		"cursor=2025-06-15T15:06:40.000000000Z":   `{"firings":[],"count":0,"next_cursor":null,"limit":25}`,
		"cursor=2025-06-15T15:06:40.000000999Z":   `{"firings":[` + one + `],"count":1,"next_cursor":null,"limit":25}`,
		"cursor=2025-06-15T15:06:40.00000100001Z": `{"firings":[` + two + `,` + one + `],"count":2,"next_cursor":null,"limit":25}`,
		"cursor=1970-01-01T00:00:00Z":             `{"firings":[],"count":0,"next_cursor":null,"limit":25}`,
	} {
		if resp := get(query); resp.Status != 200 || string(resp.Body) != want {
			t.Errorf("%s: %d %s, want\n%s", query, resp.Status, resp.Body, want)
		}
	}
	for query, reason := range map[string]string{
		"limit=x": "limit_not_integer", "cursor=x": "cursor_not_iso8601", "cursor": "cursor_not_iso8601",
		"cursor=2025-01-01&cursor=2025-01-01": "cursor_not_iso8601",
	} {
		if resp := get(query); resp.Status != 400 || string(resp.Body) != `{"error":"invalid_parameter","reason":"`+reason+`"}` {
			t.Errorf("%s: %d %s", query, resp.Status, resp.Body)
		}
	}
	backend.Fail(abi.OpFirings, abi.CodeUnavailable)
	if resp := get(""); resp.Status != 500 || len(resp.Headers) != 1 {
		t.Errorf("%d %s %v", resp.Status, resp.Body, resp.Headers)
	}
}
