package contract

import (
	"fmt"
	"strings"
	"time"
)

// withInsights adds n insights to the account, an hour apart, "Insight 1" first.
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

// insights returns the answer with those of withInsights from newest to oldest.
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
	list := func(query, want string) Step { return get("coaching/insights"+query, 200, want) }
	none := insights(0, 1, 10)
	return []Case{
		rule("coaching/sample set",
			list("", samples),
			list("?limit=1", `{"insights":[`+strings.Replace(sample, "<time>", "$(newest)", 1)+`],"count":1,"limit":1,"note":"<has:sample>"}`),
			list("?since=2000-01-01", samples),
			list("?since=$(newest)", `{"insights":[],"count":0,"limit":10,"note":"<has:sample>"}`)),
		rule("coaching/samples give way to insights",
			list("", samples), list("", insights(2, 1, 10)).before(withInsights(2)).within(time.Minute)),
		rule("coaching/newest first, ten of twelve",
			list("", insights(12, 3, 10)), list("?limit=12", insights(12, 1, 12)), list("?limit=3", insights(12, 10, 3)),
		).setup(withInsights(12)),
		rule("coaching/limit is clamped",
			list("?limit=50", insights(60, 11, 50)), list("?limit=51", insights(60, 11, 50)),
			list("?limit=99999999999999999999999", insights(60, 11, 50)),
			list("?limit=1", insights(60, 60, 1)), list("?limit=0", insights(60, 60, 1)), list("?limit=-7", insights(60, 60, 1)),
			list("?limit=-99999999999999999999999", insights(60, 60, 1)),
		).setup(withInsights(60)),
		rule("coaching/since is exclusive",
			list("?since=2025-03-01T09:00:00Z", insights(3, 2, 10)),
			list("?since=2025-03-01T08:59:59.999999Z", insights(3, 1, 10)),
			list("?since=2025-03-01T11:00:00Z", none),
			list("?since=2025-03-01T10:59:59Z&limit=5", insights(3, 3, 5)),
		).setup(withInsights(3)),
		rule("coaching/ways to write since",
			list("?since=2025-03-01", insights(3, 1, 10)),
			list("?since=2025-03-01T11:00:00%2B02:00", insights(3, 2, 10)),
			list("?since=2025-03-01T11:00:00+02:00", insights(3, 2, 10)),
			list("?since=2025-03-01T05:00:00-05:00", insights(3, 3, 10)),
			list("?since=2025-03-01%2009:00:00", insights(3, 2, 10)),
			list("?since=2025-03-01+09:00:00", insights(3, 2, 10)),
			list("?since=2025-03-01T09%3A00%3A00.000Z", insights(3, 2, 10)),
			list("?%73ince=2025-03-01T09:00:00Z", insights(3, 2, 10)),
			list("?since=1969-01-01T00:00:00Z", insights(3, 1, 10)),
			list("?since=1970-01-01T00:00:00Z", insights(3, 1, 10)),
			list("?since=2999-01-01T00:00:00Z", none),
		).setup(withInsights(3)),
		rule("coaching/test key sees the same", list("", insights(2, 1, 10)).as(Test)).setup(withInsights(2)),
		rule("coaching/another account sees none of it", list("", samples).as(Stranger)).setup(withInsights(2)),
		rule("coaching/other parameters are left alone",
			list("?cursor=x&Limit=x&limit%zz=x&&=&a", insights(1, 1, 10))).setup(withInsights(1)),
	}
}

// coachingParameters are the values of parameters that are refused.
func coachingParameters() (cases []Case) {
	bad := func(query, reason string) Step {
		return get("coaching/insights"+query, 400, refused("invalid_parameter", reason))
	}
	for _, value := range []string{"ten", "1.5", "", "1e2", "0x10", "%31%zz", "%", "1%202", "1,000", "-", "+", "--1", "%D9%A1", "NaN", "null"} {
		cases = append(cases, rule("coaching/limit "+value, bad("?limit="+value, "limit_not_integer")))
	}
	for _, value := range []string{"yesterday", "", "2025-13-01", "2025-02-30T00:00:00Z", "1740819600", "2025-03-01T25:00:00Z", "2025-03-01T09:00:00Zjunk", "%00", "%zz", "20250301"} {
		cases = append(cases, rule("coaching/since "+value, bad("?since="+value, "since_not_iso8601")))
	}
	return append(cases, rule("coaching/repeated parameters",
		bad("?limit=1&limit=2", "limit_not_integer"), bad("?limit=1&limit=1", "limit_not_integer"),
		bad("?since=2025-03-01&since=2025-03-01", "since_not_iso8601"),
		bad("?limit", "limit_not_integer"), bad("?since=x&limit=y", "limit_not_integer")))
}
