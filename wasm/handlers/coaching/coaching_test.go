package coaching

import (
	"encoding/json"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

const start = int64(1_750_000_000_000_000) // 2025-06-15T15:06:40Z

func get(backend *fake.Backend, query string) (resp abi.Response) {
	Handle(&abi.Request{Query: query}, &resp, backend.For(abi.Principal{AccountID: "acc_1"}))
	return resp
}

func newBackend() *fake.Backend {
	backend := fake.New(func() int64 { return start })
	backend.AddAccount(abi.Profile{AccountID: "acc_1"})
	return backend
}

func TestHandle(t *testing.T) {
	backend := newBackend()
	for _, it := range []abi.Insight{
		{ID: "ins_1", Headline: "one", Detail: "d\"1", Created: start},
		{ID: "ins_2", Headline: "two", Detail: "d2", Created: start + 1},
	} {
		if _, err := backend.AddInsight("acc_1", it); err != nil {
			t.Fatal(err)
		}
	}
	const (
		one = `{"id":"ins_1","headline":"one","detail":"d\"1","created_at":"2025-06-15T15:06:40.000000Z","source":"coaching_run"}`
		two = `{"id":"ins_2","headline":"two","detail":"d2","created_at":"2025-06-15T15:06:40.000001Z","source":"coaching_run"}`
	)
	for query, want := range map[string]string{
		"":                           `{"insights":[` + two + `,` + one + `],"count":2,"limit":10,"note":null}`,
		"limit=1":                    `{"insights":[` + two + `],"count":1,"limit":1,"note":null}`,
		"limit=0":                    `{"insights":[` + two + `],"count":1,"limit":1,"note":null}`,
		"limit=999":                  `{"insights":[` + two + `,` + one + `],"count":2,"limit":50,"note":null}`,
		"since=2025-06-15T15:06:40Z": `{"insights":[` + two + `],"count":1,"limit":10,"note":null}`,
		// An insight within the microsecond of a finer bound is not after it; the next one is.
		"since=2025-06-15T15:06:40.000000999Z": `{"insights":[` + two + `],"count":1,"limit":10,"note":null}`,
		"since=2025-06-15T15:06:40.000001Z":    `{"insights":[],"count":0,"limit":10,"note":null}`,
	} {
		if resp := get(backend, query); resp.Status != 200 || string(resp.Body) != want {
			t.Errorf("%s: %d %s, want\n%s", query, resp.Status, resp.Body, want)
		}
	}
	for query, reason := range map[string]string{
		"limit=x": "limit_not_integer", "limit=1&limit=1": "limit_not_integer", "since=x": "since_not_iso8601", "since=": "since_not_iso8601",
		"since=2025-01-01&since=2025-01-01": "since_not_iso8601",
	} {
		if resp := get(backend, query); resp.Status != 400 || string(resp.Body) != `{"error":"invalid_parameter","reason":"`+reason+`"}` {
			t.Errorf("%s: %d %s", query, resp.Status, resp.Body)
		}
	}
	backend.Fail(abi.OpInsights, abi.CodeUnavailable)
	if resp := get(backend, ""); resp.Status != 500 || len(resp.Headers) != 1 {
		t.Errorf("%d %s %v", resp.Status, resp.Body, resp.Headers)
	}
}

func TestSamples(t *testing.T) {
	backend := newBackend()
	type page struct {
		Insights []struct {
			ID, Headline, Detail, Source string
			Created                      string `json:"created_at"`
		}
		Count, Limit int
		Note         *string
	}
	read := func(query string) (p page) {
		resp := get(backend, query)
		if err := json.Unmarshal(resp.Body, &p); err != nil || resp.Status != 200 {
			t.Fatalf("%s: %d %s: %v", query, resp.Status, resp.Body, err)
		}
		if p.Note == nil || p.Count != len(p.Insights) {
			t.Errorf("%s: %s", query, resp.Body)
		}
		return p
	}
	all := read("")
	if len(all.Insights) < 2 {
		t.Fatalf("%d samples", len(all.Insights))
	}
	for i, it := range all.Insights {
		if it.ID == "" || it.Headline == "" || it.Detail == "" || it.Source != "fallback" {
			t.Errorf("sample %+v", it)
		}
		if i > 0 && it.Created >= all.Insights[i-1].Created {
			t.Error("not newest first")
		}
		// since cuts samples as it would cut insights: what is left are those before it in the list.
		if got := read("since=" + it.Created).Count; got != i {
			t.Errorf("%d left after sample %d", got, i)
		}
		if got := read("since=" + it.Created + "&limit=1").Count; got != min(i, 1) {
			t.Errorf("%d left of one after sample %d", got, i)
		}
	}
	if got := read("limit=1"); got.Count != 1 || got.Limit != 1 || got.Insights[0] != all.Insights[0] {
		t.Errorf("%+v", got)
	}
	if _, err := backend.AddInsight("acc_1", abi.Insight{Created: start}); err != nil {
		t.Fatal(err)
	}
	// An account with history is never shown samples, though nothing is left.
	if resp := get(backend, "since=2999-01-01"); string(resp.Body) != `{"insights":[],"count":0,"limit":10,"note":null}` {
		t.Errorf("%s", resp.Body)
	}
}

// TestSamplesAreAlwaysTheSame: partners send the newest time back as since, so the
// times of samples may never change.
func TestSamplesAreAlwaysTheSame(t *testing.T) {
	var page struct {
		Insights []struct {
			ID, Headline string
			Created      string `json:"created_at"`
		}
	}
	if err := json.Unmarshal(get(newBackend(), "").Body, &page); err != nil {
		t.Fatal(err)
	}
	want := []string{"2025-01-01T00:00:00.000000Z", "2024-12-31T23:00:00.000000Z", "2024-12-31T22:00:00.000000Z"}
	for i, it := range page.Insights {
		if i >= len(want) || it.Created != want[i] {
			t.Errorf("sample %d is of %s, want of %v", i, it.Created, want)
		}
	}
}
