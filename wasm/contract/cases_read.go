package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// me is what agents/me says of a session's account.
const me = `{
	"agent":{"id":"<string>","email":"ana@example.com","full_name":"Ana Lima","joined_at":"<time>"},
	"account":{"id":"$(account)","name":"Lima Realty","activation_mode":"live"},
	"api_version":"v2"}`

// sample is one insight of the sample set, samples the whole of it.
const (
	sample  = `{"id":"<string>","headline":"<string>","detail":"<string>","created_at":"<time>","source":"fallback"}`
	samples = `{"insights":[
		{"id":"<string>","headline":"<string>","detail":"<string>","created_at":"<newest=time>","source":"fallback"},
		` + sample + `,` + sample + `],"count":3,"limit":10,"note":"<has:sample>"}`
	noFirings = `{"firings":[],"count":0,"next_cursor":null,"limit":25}`
)

// base is when the data of cases begins.
var base = time.Date(2025, 3, 1, 9, 0, 0, 0, time.UTC)

func agents() []Case {
	return []Case{
		{Name: "agents/live key", Steps: []Step{{
			Method: "GET", Path: "agents/me", Status: 200, WantBody: me,
			WantHeader: map[string]string{"X-Svc-Environment": "live"},
		}}},
		{Name: "agents/test key", Steps: []Step{{
			Method: "GET", Path: "agents/me", Key: Test, Status: 200, WantBody: me,
			WantHeader: map[string]string{"X-Svc-Environment": "test"},
		}}},
		{
			Name: "agents/account in setup, names of any script",
			Setup: func(s *Session) {
				s.UseAccount(Account{Name: `Łódź "Homes" <& Co>`, Email: "zoe+x@example.com", Agent: "Zoë 山田 🏡"})
			},
			Steps: []Step{{Method: "GET", Path: "agents/me", Status: 200, WantBody: `{
				"agent":{"id":"<string>","email":"zoe+x@example.com","full_name":"Zoë 山田 🏡","joined_at":"<time>"},
				"account":{"id":"$(account)","name":"Łódź \"Homes\" <& Co>","activation_mode":"setup"},
				"api_version":"v2"}`}},
		},
		{Name: "agents/parameters are left alone", Steps: []Step{
			{Method: "GET", Path: "agents/me?limit=x&%zz&a=b", Status: 200, WantBody: me},
		}},
		{Name: "agents/two keys, one agent", Steps: []Step{
			{Method: "GET", Path: "agents/me", Status: 200, WantBody: strings.Replace(me, `"<string>"`, `"<agent=string>"`, 1)},
			{Method: "GET", Path: "agents/me", Key: Test, Status: 200, WantBody: strings.Replace(me, `"<string>"`, `"$(agent)"`, 1)},
		}},
	}
}

// withInsights gives the account n insights an hour apart, "Insight 1" first.
func withInsights(n int) func(*Session) {
	return func(s *Session) {
		var list []Insight
		for i := range n {
			list = append(list, Insight{
				Headline: fmt.Sprintf("Insight %d", i+1), Detail: "Detail \u2028 of it",
				Created: base.Add(time.Duration(i) * time.Hour),
			})
		}
		s.target.Fixture.Insights(s.T, s.Account, list)
	}
}

// insights is the answer that shows those of withInsights from newest to oldest.
func insights(newest, oldest, limit int) string {
	var items []string
	for i := newest; i >= oldest && i > 0; i-- {
		items = append(items, fmt.Sprintf(
			`{"id":"<string>","headline":"Insight %d","detail":"Detail \u2028 of it","created_at":"<at:%s>","source":"coaching_run"}`,
			i, base.Add(time.Duration(i-1)*time.Hour).Format(time.RFC3339)))
	}
	return fmt.Sprintf(`{"insights":[%s],"count":%d,"limit":%d,"note":null}`, strings.Join(items, ","), len(items), limit)
}

func coaching() []Case {
	get := func(query, body string) Step {
		return Step{Method: "GET", Path: "coaching/insights" + query, Status: 200, WantBody: body}
	}
	bad := func(query, reason string) Step {
		s := get(query, refused("invalid_parameter", reason))
		s.Status = 400
		return s
	}
	none := func(limit int) string { return insights(0, 1, limit) }
	cases := []Case{
		{Name: "coaching/sample set", Steps: []Step{
			get("", samples),
			get("?limit=1", `{"insights":[`+strings.Replace(sample, "<time>", "$(newest)", 1)+`],"count":1,"limit":1,"note":"<has:sample>"}`),
			get("?since=2000-01-01", samples),
			get("?since=$(newest)", `{"insights":[],"count":0,"limit":10,"note":"<has:sample>"}`),
		}},
		{Name: "coaching/samples give way to insights", Steps: []Step{
			get("", samples),
			{
				Before: withInsights(2), Method: "GET", Path: "coaching/insights", Within: 5 * time.Second,
				Status: 200, WantBody: insights(2, 1, 10),
			},
		}},
		{Name: "coaching/newest first, ten of twelve", Setup: withInsights(12), Steps: []Step{
			get("", insights(12, 3, 10)), get("?limit=12", insights(12, 1, 12)), get("?limit=3", insights(12, 10, 3)),
		}},
		{Name: "coaching/limit is clamped", Setup: withInsights(60), Steps: []Step{
			get("?limit=50", insights(60, 11, 50)), get("?limit=51", insights(60, 11, 50)),
			get("?limit=99999999999999999999999", insights(60, 11, 50)),
			get("?limit=1", insights(60, 60, 1)), get("?limit=0", insights(60, 60, 1)), get("?limit=-7", insights(60, 60, 1)),
			get("?limit=-99999999999999999999999", insights(60, 60, 1)),
		}},
		{Name: "coaching/since is exclusive", Setup: withInsights(3), Steps: []Step{
			get("?since=2025-03-01T09:00:00Z", insights(3, 2, 10)),
			get("?since=2025-03-01T08:59:59.999999Z", insights(3, 1, 10)),
			get("?since=2025-03-01T11:00:00Z", none(10)),
			get("?since=2025-03-01T10:59:59Z&limit=5", insights(3, 3, 5)),
		}},
		{Name: "coaching/ways to write since", Setup: withInsights(3), Steps: []Step{
			get("?since=2025-03-01", insights(3, 1, 10)),
			get("?since=2025-03-01T11:00:00%2B02:00", insights(3, 2, 10)),
			get("?since=2025-03-01T11:00:00+02:00", insights(3, 2, 10)),
			get("?since=2025-03-01T05:00:00-05:00", insights(3, 3, 10)),
			get("?since=2025-03-01%2009:00:00", insights(3, 2, 10)),
			get("?since=2025-03-01+09:00:00", insights(3, 2, 10)),
			get("?since=2025-03-01T09%3A00%3A00.000Z", insights(3, 2, 10)),
			get("?%73ince=2025-03-01T09:00:00Z", insights(3, 2, 10)),
			get("?since=1969-01-01T00:00:00Z", insights(3, 1, 10)),
			get("?since=1970-01-01T00:00:00Z", insights(3, 1, 10)),
			get("?since=2999-01-01T00:00:00Z", none(10)),
		}},
		{Name: "coaching/test key sees the same", Setup: withInsights(2), Steps: []Step{
			{Method: "GET", Path: "coaching/insights", Key: Test, Status: 200, WantBody: insights(2, 1, 10)},
		}},
		{Name: "coaching/another account sees none of it", Setup: withInsights(2), Steps: []Step{
			{Method: "GET", Path: "coaching/insights", Key: Stranger, Status: 200, WantBody: samples},
		}},
		{Name: "coaching/other parameters are left alone", Setup: withInsights(1), Steps: []Step{
			get("?cursor=x&Limit=x&limit%zz=x&&=&a", insights(1, 1, 10)),
		}},
	}
	for _, value := range []string{"ten", "1.5", "", "1e2", "0x10", "%31%zz", "%", "1%202", "1,000", "-", "+", "--1", "%D9%A1", "NaN", "null"} {
		cases = append(cases, Case{Name: "coaching/limit " + value, Steps: []Step{bad("?limit="+value, "limit_not_integer")}})
	}
	for _, value := range []string{"yesterday", "", "2025-13-01", "2025-02-30T00:00:00Z", "1740819600", "2025-03-01T25:00:00Z", "2025-03-01T09:00:00Zjunk", "%00", "%zz", "20250301"} {
		cases = append(cases, Case{Name: "coaching/since " + value, Steps: []Step{bad("?since="+value, "since_not_iso8601")}})
	}
	return append(cases, Case{Name: "coaching/repeated parameters", Steps: []Step{
		bad("?limit=1&limit=2", "limit_not_integer"), bad("?limit=1&limit=1", "limit_not_integer"),
		bad("?since=2025-03-01&since=2025-03-01", "since_not_iso8601"),
		bad("?limit", "limit_not_integer"), bad("?since=x&limit=y", "limit_not_integer"),
	}})
}

// withFirings gives the account n firings a minute apart, "sentinel_1" first.
func withFirings(n int) func(*Session) {
	return func(s *Session) {
		var list []Firing
		for i := range n {
			list = append(list, Firing{
				Name: fmt.Sprintf("sentinel_%d", i+1), Action: "task_created",
				Triggered: base.Add(time.Duration(i) * time.Minute), Data: []byte(`{"n":1}`),
			})
		}
		s.target.Fixture.Firings(s.T, s.Account, list)
	}
}

// firings is the answer that shows those of withFirings from newest to oldest;
// more says that there are older ones.
func firings(newest, oldest, limit int, more bool) string {
	var items []string
	for i := newest; i >= oldest && i > 0; i-- {
		items = append(items, fmt.Sprintf(
			`{"id":"<string>","sentinel_name":"sentinel_%d","triggered_at":"<at:%s>","trigger_data":{"n":1},"action_taken":"task_created"}`,
			i, base.Add(time.Duration(i-1)*time.Minute).Format(time.RFC3339)))
	}
	next := "null"
	if more {
		next = fmt.Sprintf(`"<cursor=at:%s>"`, base.Add(time.Duration(oldest-1)*time.Minute).Format(time.RFC3339))
	}
	return fmt.Sprintf(`{"firings":[%s],"count":%d,"next_cursor":%s,"limit":%d}`, strings.Join(items, ","), len(items), next, limit)
}

func sentinels() []Case {
	get := func(query, body string) Step {
		return Step{Method: "GET", Path: "sentinels/firings" + query, Status: 200, WantBody: body}
	}
	bad := func(query, reason string) Step {
		s := get(query, refused("invalid_parameter", reason))
		s.Status = 400
		return s
	}
	cases := []Case{
		{Name: "sentinels/none", Steps: []Step{get("", noFirings), get("?cursor=2025-01-01", noFirings)}},
		{Name: "sentinels/newest first, to the end", Setup: withFirings(7), Steps: []Step{
			get("?limit=3", firings(7, 5, 3, true)),
			get("?limit=3&cursor=$(cursor)", firings(4, 2, 3, true)),
			get("?limit=3&cursor=$(cursor)", firings(1, 1, 3, false)),
		}},
		{Name: "sentinels/last page full", Setup: withFirings(6), Steps: []Step{
			get("?limit=3", firings(6, 4, 3, true)),
			get("?cursor=$(cursor)&limit=3", firings(3, 1, 3, false)),
			get("?limit=6", firings(6, 1, 6, false)),
		}},
		{Name: "sentinels/default and bounds of limit", Setup: withFirings(102), Steps: []Step{
			get("", firings(102, 78, 25, true)),
			get("?limit=100", firings(102, 3, 100, true)), get("?limit=1000", firings(102, 3, 100, true)),
			get("?limit=100&cursor=$(cursor)", firings(2, 1, 100, false)),
			get("?limit=0", firings(102, 102, 1, true)), get("?limit=-1", firings(102, 102, 1, true)),
		}},
		{Name: "sentinels/cursor is exclusive", Setup: withFirings(3), Steps: []Step{
			get("?cursor=2025-03-01T09:01:00Z", firings(1, 1, 25, false)),
			get("?cursor=2025-03-01T09:01:00.000001Z", firings(2, 1, 25, false)),
			get("?cursor=2025-03-01T11:01:00%2B02:00", firings(1, 1, 25, false)),
			get("?cursor=2025-03-01T11:01:00+02:00", firings(1, 1, 25, false)),
			get("?cursor=2025-03-01T09:00:00Z", noFirings),
			get("?cursor=1970-01-01T00:00:00Z", noFirings), get("?cursor=1969-01-01", noFirings),
			get("?cursor=2999-01-01", firings(3, 1, 25, false)),
		}},
		{Name: "sentinels/equal times at a page's edge", Setup: func(s *Session) {
			var list []Firing
			for i := range 20 {
				list = append(list, Firing{
					Name: fmt.Sprintf("equal_%d", i), Action: "none", Triggered: base.Add(time.Duration(i/10) * time.Microsecond), Data: []byte(`{}`),
				})
			}
			s.target.Fixture.Firings(s.T, s.Account, list)
		}, Then: everyFiringOnce(20)},
		{Name: "sentinels/trigger_data is as it was given", Setup: func(s *Session) {
			s.target.Fixture.Firings(s.T, s.Account, []Firing{{
				Name: "odd \"name\"", Action: "email → sent", Triggered: base,
				Data: []byte(`{"a":{"b":[1,2.5,-3e2,true,null,"x\u0001\"\\/é"]},"":{},"big":9007199254740993}`),
			}})
		}, Steps: []Step{get("", `{"firings":[{"id":"<string>","sentinel_name":"odd \"name\"","triggered_at":"<at:2025-03-01T09:00:00Z>",
			"trigger_data":{"a":{"b":[1,2.5,"<any>",true,null,"x\u0001\"\\/é"]},"":{},"big":9007199254740993},
			"action_taken":"email → sent"}],"count":1,"next_cursor":null,"limit":25}`)}},
		{Name: "sentinels/test key sees the same", Setup: withFirings(2), Steps: []Step{
			{Method: "GET", Path: "sentinels/firings", Key: Test, Status: 200, WantBody: firings(2, 1, 25, false)},
		}},
		{Name: "sentinels/another account sees none of it", Setup: withFirings(2), Steps: []Step{
			{Method: "GET", Path: "sentinels/firings", Key: Stranger, Status: 200, WantBody: noFirings},
		}},
		{Name: "sentinels/a new firing is seen", Steps: []Step{
			get("", noFirings),
			{
				Before: withFirings(1), Method: "GET", Path: "sentinels/firings", Within: 5 * time.Second,
				Status: 200, WantBody: firings(1, 1, 25, false),
			},
		}},
		{Name: "sentinels/repeated parameters", Steps: []Step{
			bad("?limit=1&limit=1", "limit_not_integer"),
			bad("?cursor=2025-03-01&cursor=2025-03-01", "cursor_not_iso8601"),
			bad("?cursor=x&limit=y", "limit_not_integer"),
		}},
	}
	for _, value := range []string{"abc", "2.0", ""} {
		cases = append(cases, Case{Name: "sentinels/limit " + value, Steps: []Step{bad("?limit="+value, "limit_not_integer")}})
	}
	for _, value := range []string{"abc", "", "2025-02-29", "%zz", "1740819600000"} {
		cases = append(cases, Case{Name: "sentinels/cursor " + value, Steps: []Step{bad("?cursor="+value, "cursor_not_iso8601")}})
	}
	return cases
}

// everyFiringOnce pages through all firings, three at a time, and must see n.
func everyFiringOnce(n int) func(*Session) {
	return func(s *Session) {
		seen := map[string]bool{}
		for cursor := ""; ; {
			path := "sentinels/firings?limit=3"
			if cursor != "" {
				path += "&cursor=" + cursor
			}
			x := s.send(Step{Method: "GET", Path: path, Key: Live})
			var page struct {
				Firings []struct{ ID string }
				Next    *string `json:"next_cursor"`
			}
			if err := json.Unmarshal(x.ResponseBody, &page); err != nil || x.Response.StatusCode != 200 {
				s.T.Fatalf("%s: %d %s", path, x.Response.StatusCode, x.ResponseBody)
			}
			for _, f := range page.Firings {
				if seen[f.ID] {
					s.T.Errorf("%s comes twice", f.ID)
				}
				seen[f.ID] = true
			}
			if page.Next == nil {
				break
			}
			if len(page.Firings) != 3 || *page.Next == cursor {
				s.T.Fatalf("%s does not go on: %s", path, x.ResponseBody)
			}
			cursor = *page.Next
		}
		if len(seen) != n {
			s.T.Errorf("%d firings seen, want %d", len(seen), n)
		}
	}
}
