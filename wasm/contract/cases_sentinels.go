package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// withFirings adds n firings to the account, a minute apart, "sentinel_1" first.
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

// firings returns the answer with those of withFirings from newest to oldest,
// with a cursor if there are more.
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
	list := func(query, want string) Step { return get("sentinels/firings"+query, 200, want) }
	return []Case{
		rule("sentinels/none", list("", noFirings), list("?cursor=2025-01-01", noFirings)),
		rule("sentinels/newest first, to the end",
			list("?limit=3", firings(7, 5, 3, true)),
			list("?limit=3&cursor=$(cursor)", firings(4, 2, 3, true)),
			list("?limit=3&cursor=$(cursor)", firings(1, 1, 3, false)),
		).setup(withFirings(7)),
		rule("sentinels/last page full",
			list("?limit=3", firings(6, 4, 3, true)),
			list("?cursor=$(cursor)&limit=3", firings(3, 1, 3, false)),
			list("?limit=6", firings(6, 1, 6, false)),
		).setup(withFirings(6)),
		rule("sentinels/default and bounds of limit",
			list("", firings(102, 78, 25, true)),
			list("?limit=100", firings(102, 3, 100, true)), list("?limit=1000", firings(102, 3, 100, true)),
			list("?limit=100&cursor=$(cursor)", firings(2, 1, 100, false)),
			list("?limit=0", firings(102, 102, 1, true)), list("?limit=-1", firings(102, 102, 1, true)),
			list("?cursor=1970-01-01", noFirings), list("?cursor=1969-01-01", noFirings),
			list("?cursor=0001-01-01T00:00:00Z", noFirings), list("?cursor=0000-01-01", noFirings),
		).setup(withFirings(102)),
		rule("sentinels/cursor is exclusive",
			list("?cursor=2025-03-01T09:01:00Z", firings(1, 1, 25, false)),
			list("?cursor=2025-03-01T09:01:00.000001Z", firings(2, 1, 25, false)),
			list("?cursor=2025-03-01T11:01:00%2B02:00", firings(1, 1, 25, false)),
			list("?cursor=2025-03-01T11:01:00+02:00", firings(1, 1, 25, false)),
			list("?cursor=2025-03-01T09:00:00Z", noFirings),
			list("?cursor=1970-01-01T00:00:00Z", noFirings), list("?cursor=1969-01-01", noFirings),
			list("?cursor=2999-01-01", firings(3, 1, 25, false)),
		).setup(withFirings(3)),
		rule("sentinels/equal times at a page's edge").setup(withEqualTimes).then(everyFiringOnce(20)),
		rule("sentinels/trigger_data is as it was given",
			list("", `{"firings":[{"id":"<string>","sentinel_name":"odd \"name\"","triggered_at":"<at:2025-03-01T09:00:00Z>",
			"trigger_data":{"a":{"b":[1,2.5,"<any>",true,null,"x\u0001\"\\/é"]},"":{},"big":9007199254740993},
			"action_taken":"email → sent"}],"count":1,"next_cursor":null,"limit":25}`),
		).setup(func(s *Session) {
			s.target.Fixture.Firings(s.T, s.Account, []Firing{{
				Name: "odd \"name\"", Action: "email → sent", Triggered: base,
				Data: []byte(`{"a":{"b":[1,2.5,-3e2,true,null,"x\u0001\"\\/é"]},"":{},"big":9007199254740993}`),
			}})
		}),
		rule("sentinels/test key sees the same", list("", firings(2, 1, 25, false)).as(Test)).setup(withFirings(2)),
		rule("sentinels/another account sees none of it", list("", noFirings).as(Stranger)).setup(withFirings(2)),
		rule("sentinels/a new firing is seen",
			list("", noFirings), list("", firings(1, 1, 25, false)).before(withFirings(1)).within(time.Minute)),
	}
}

// sentinelParameters are the values of parameters that are refused.
func sentinelParameters() (cases []Case) {
	bad := func(query, reason string) Step {
		return get("sentinels/firings"+query, 400, refused("invalid_parameter", reason))
	}
	for _, value := range []string{"abc", "2.0", ""} {
		cases = append(cases, rule("sentinels/limit "+value, bad("?limit="+value, "limit_not_integer")))
	}
	for _, value := range []string{"abc", "", "2025-02-29", "%zz", "1740819600000"} {
		cases = append(cases, rule("sentinels/cursor "+value, bad("?cursor="+value, "cursor_not_iso8601")))
	}
	return append(cases, rule("sentinels/repeated parameters",
		bad("?limit=1&limit=1", "limit_not_integer"),
		bad("?cursor=2025-03-01&cursor=2025-03-01", "cursor_not_iso8601"),
		bad("?cursor=x&limit=y", "limit_not_integer")))
}

// withEqualTimes adds 20 firings of which each ten have the same time.
func withEqualTimes(s *Session) {
	var list []Firing
	for i := range 20 {
		list = append(list, Firing{
			Name: fmt.Sprintf("equal_%d", i), Action: "none", Triggered: base.Add(time.Duration(i/10) * time.Microsecond), Data: []byte(`{}`),
		})
	}
	s.target.Fixture.Firings(s.T, s.Account, list)
}

// everyFiringOnce returns a check that pages through all firings, three at a time,
// and must see n.
func everyFiringOnce(n int) func(*Session) {
	return func(s *Session) {
		seen := map[string]bool{}
		for cursor := ""; ; {
			path := "sentinels/firings?limit=3"
			if cursor != "" {
				path += "&cursor=" + cursor
			}
			x := s.send(get(path, 0, "").as(Live))
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
