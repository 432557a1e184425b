package contract

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// subscription returns the answer to a successful subscription. events and
// description are JSON.
func subscription(target, events, description, environment string) string {
	return fmt.Sprintf(`{"subscription":{"id":"<id=id:whs>","target_url":%q,"events":%s,"description":%s,"environment":%q,
		"created_at":"<time>"},"secret":"<secret=hex64>","signing_scheme":"<has:X-Svc-Signature: t=<unix>,v1=<hex>>"}`,
		target, events, description, environment)
}

// hookBody subscribes $(hook) to one event.
const hookBody = `{"target_url":"$(hook)","events":["sentinel.fired"]}`

var (
	subscribed     = subscription("$(hook)", `["sentinel.fired"]`, "null", "live")
	subscribedTest = subscription("$(hook)", `["sentinel.fired"]`, "null", "test")
	subscribeOK    = post("webhooks/subscribe", hookBody, 201, subscribed)
)

const allEvents = `["agent.coaching_insight_created","sentinel.fired","deal.stage_changed","client.contacted","goal.pace_changed"]`

// notJSON are bodies that every endpoint refuses.
var notJSON = []struct{ name, body string }{
	{"nothing", ""},
	{"white space", " \n"},
	{"text", "name=Ana"},
	{"cut short", `{"name":"Ana"`},
	{"something after it", `{"name":"Ana"} {}`},
	{"trailing comma", `{"name":"Ana",}`},
	{"single quotes", `{'name':'Ana'}`},
	{"a comment", `{"name":"Ana"/* */}`},
	{"NaN", `{"name":NaN}`},
	{"leading zero", `{"name":01}`},
	{"bare control character", "{\"name\":\"A\nna\"}"},
	{"unknown escape", `{"name":"\x41"}`},
	{"byte order mark", "\ufeff{\"name\":\"Ana\"}"},
	{"not UTF-8", "{\"name\":\"An\xe1\"}"},
	{"UTF-16", "{\x00\"\x00a\x00\"\x00:\x001\x00}\x00"},
	{"overlong UTF-8", "{\"name\":\"\xc0\xaf\"}"},
	{"half a surrogate pair", `{"name":"\ud800x"}`},
	{"an escaped NUL", `{"name":"A\u0000na"}`},
	{"too deep", `{"name":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`},
	{"too deep and cut short", strings.Repeat(`{"a":`, 9000)},
	{"a list", `[{"name":"Ana"}]`},
	{"a string", `"Ana"`},
	{"null", `null`},
}

// wantSubscription returns a check that the account has one subscription, the
// one captured last.
func wantSubscription(environment string, revoked bool) func(*Session) {
	return func(s *Session) {
		s.wantSubscriptions(Subscription{
			ID: s.Get("id"), TargetURL: s.Get("hook"), Environment: environment,
			Events: []string{"sentinel.fired"}, Revoked: revoked,
		})
	}
}

func subscribe() []Case {
	const path = "webhooks/subscribe"
	ok := func(body, want string) Step { return post(path, body, 201, want) }
	cases := []Case{
		rule("subscribe/one event", subscribeOK).then(wantSubscription("live", false)),
		rule("subscribe/every event, and a description",
			ok(`{"target_url":"$(hook)?a=b&c=%20#d","events":`+allEvents+`,"description":"Our \"CRM\" é"}`,
				subscription("$(hook)?a=b&c=%20#d", allEvents, `"Our \"CRM\" é"`, "live"))),
		rule("subscribe/test key", ok(hookBody, subscribedTest).as(Test)).then(wantSubscription("test", false)),
		rule("subscribe/unknown events dropped, repeated ones folded",
			ok(`{"target_url":"$(hook)","events":["goal.pace_changed","x","sentinel.fired","goal.pace_changed","Sentinel.Fired"," sentinel.fired",7,null,["deal.stage_changed"]]}`,
				subscription("$(hook)", `["goal.pace_changed","sentinel.fired"]`, "null", "live"))),
		rule("subscribe/ids and secrets differ",
			subscribeOK,
			subscribeOK.before(func(s *Session) { s.Set("id1", s.Get("id")); s.Set("secret1", s.Get("secret")) }),
		).then(func(s *Session) {
			if s.Get("id") == s.Get("id1") || s.Get("secret") == s.Get("secret1") {
				s.T.Error("two subscriptions share an id or a secret")
			}
		}),
		rule("subscribe/the target is judged first, then events",
			post(path, `{}`, 400, refused("invalid_target_url", "missing")),
			post(path, `{"target_url":"http://example.com","events":[],"description":1}`, 400, refused("invalid_target_url", "scheme_not_https")),
			post(path, `{"target_url":"$(hook)","events":[],"description":1}`, 400, noEvents)),
		rule("subscribe/of two members the last counts",
			ok(`{"target_url":"http://example.com","events":[],"target_url":"$(hook)","ev\u0065nts":["sentinel.fired"]}`, subscribed)),
		rule("subscribe/members it does not know",
			ok(`{"target_url":"$(hook)","events":["sentinel.fired"],"secret":"mine","id":"whs_mine","environment":"test","Target_URL":1}`, subscribed)),
		rule("subscribe/at most 100",
			subscribeOK.as(Fast).times(100),
			subscribeOK.as(Fast).answers(400, refused("subscription_limit_reached", "")),
			remove("webhooks/$(id)", 200, `{"ok":true}`),
			subscribeOK.as(Fast),
			subscribeOK.as(Stranger)),
	}
	for _, c := range notJSON {
		cases = append(cases, rule("subscribe/body is "+c.name, post(path, c.body, 400, refused("invalid_body", "json_parse_failed"))))
	}
	return cases
}

// subscribeOnce are the rules of the idempotency key.
func subscribeOnce() []Case {
	once := keyed(subscribeOK, "hook 7")
	onceTest := keyed(post("webhooks/subscribe", hookBody, 201, subscribedTest), "hook 7").as(Test)
	remember := func(s *Session) { s.Set("id1", s.Get("id")); s.Set("secret1", s.Get("secret")) }
	again := func(s Step) Step {
		s = s.wants("Idempotent-Replayed", "true")
		s.WantBody = strings.NewReplacer("<id=id:whs>", "$(id1)", "<secret=hex64>", "$(secret1)").Replace(s.WantBody)
		return s
	}
	other := `{"target_url":"$(hook)","events":["sentinel.fired"],"description":"x"}`
	conflict := keyed(post("webhooks/subscribe", other, 409, refused("idempotency_conflict", "")), "hook 7")
	badKey := post("webhooks/subscribe", hookBody, 400, refused("invalid_idempotency_key", ""))
	count := func(want int) func(*Session) {
		return func(s *Session) {
			if n := len(s.target.Fixture.Subscriptions(s.T, s.Account)); n != want {
				s.T.Errorf("%d subscriptions, want %d", n, want)
			}
		}
	}
	return []Case{
		rule("subscribe/idempotency key, done once",
			once,
			again(once).before(remember),
			conflict,
			again(once),
			once.as(Second), // the same key of another API key is another key
			keyed(subscribeOK, "hook 8"),
			keyed(anaOK, "hook 7"), // a lead's is another one, too
		).then(count(3)),
		rule("subscribe/idempotency key of a test key",
			onceTest, again(onceTest).before(remember), conflict.as(Test)).then(wantSubscription("test", false)),
		rule("subscribe/idempotency key of a subscription that was revoked since",
			once,
			remove("webhooks/$(id)", 200, `{"ok":true}`),
			keyed(post("webhooks/subscribe", hookBody, 409, refused("idempotency_conflict", "")), "hook 7")).then(wantSubscription("live", true)),
		rule("subscribe/idempotency key of a refused subscription is free",
			keyed(post("webhooks/subscribe", `{"target_url":"$(hook)","events":[]}`, 400, noEvents), "hook 7"),
			keyed(post("webhooks/subscribe", `{"target_url":"https://[::1]/hook","events":["sentinel.fired"]}`, 400, refused("invalid_target_url", "host_not_public")), "hook 7"),
			once),
		rule("subscribe/idempotency key for a day",
			once,
			again(once).before(func(s *Session) { remember(s); s.target.Advance(24*time.Hour - time.Second) }),
			keyed(subscribeOK, "hook 7").after(time.Second)).needs(Clock),
		rule("subscribe/idempotency key that is none",
			keyed(badKey, ""), keyed(badKey, strings.Repeat("x", 256)), keyed(badKey, "a", "b")).then(count(0)),
	}
}

var noEvents = refused("no_valid_events", "events_array_empty_or_unknown")

// subscribeFields are the rules of events and description.
func subscribeFields() []Case {
	const path = "webhooks/subscribe"
	var events []Step
	for _, list := range []string{
		`[]`, `null`, `"sentinel.fired"`, `{"0":"sentinel.fired"}`, `["nope"]`, `[null,1,[]]`, `[""]`,
	} {
		events = append(events, post(path, `{"target_url":"$(hook)","events":`+list+`}`, 400, noEvents))
	}
	events = append(events, post(path, `{"target_url":"$(hook)"}`, 400, noEvents))
	long := strings.Repeat("é", 500)
	described := func(description string) Step {
		return post(path, `{"target_url":"$(hook)","events":["sentinel.fired"],"description":`+description+`}`, 201,
			subscription("$(hook)", `["sentinel.fired"]`, description, "live"))
	}
	bad := func(description, reason string) Step {
		return described(description).answers(400, refused("invalid_description", reason))
	}
	return []Case{
		rule("subscribe/no valid events", events...),
		rule("subscribe/description",
			described(`null`), described(`""`), described(`"`+long+`"`),
			bad(`"`+long+`x"`, "field_too_long"), bad(`7`, "invalid_field_type"),
			bad(`["x"]`, "invalid_field_type"), bad(`false`, "invalid_field_type")),
	}
}

// badTargets are values of target_url that are refused. They do not include
// loopback addresses of IPv4, which a target may be configured to accept.
var badTargets = []struct{ name, value, reason string }{
	{"absent", ``, "missing"},
	{"null", `null`, "missing"},
	{"empty", `""`, "missing"},
	{"a number", `7`, "not_a_url"},
	{"an object", `{"url":"https://example.com"}`, "not_a_url"},
	{"a word", `"example"`, "not_a_url"},
	{"without a scheme", `"example.com/hook"`, "not_a_url"},
	{"without a host", `"https:///hook"`, "not_a_url"},
	{"without slashes", `"https:example.com"`, "not_a_url"},
	{"with one slash", `"https:/example.com"`, "not_a_url"},
	{"with backslashes", `"https:\\\\example.com\\"`, "not_a_url"},
	{"with a space", `"https://example.com/a b"`, "not_a_url"},
	{"with a space before", `" https://example.com/"`, "not_a_url"},
	{"with a newline", `"https://example.com/\nx"`, "not_a_url"},
	{"with a broken escape", `"https://example.com/%zz"`, "not_a_url"},
	{"with an empty label", `"https://a..example.com/"`, "not_a_url"},
	{"with a letter for a port", `"https://example.com:https/"`, "not_a_url"},
	{"with half a bracket", `"https://[2606:4700::1111/"`, "not_a_url"},
	{"a scheme alone", `"https://"`, "not_a_url"},
	{"http", `"http://example.com/hook"`, "scheme_not_https"},
	{"ftp", `"ftp://example.com/hook"`, "scheme_not_https"},
	{"javascript", `"javascript:alert(1)"`, "scheme_not_https"},
	{"file", `"file:///etc/passwd"`, "scheme_not_https"},
	{"http without slashes", `"http:127.0.0.1/"`, "scheme_not_https"},
	{"a user", `"https://ana@example.com/"`, "credentials_in_url"},
	{"a user and a password", `"https://ana:secret@example.com/"`, "credentials_in_url"},
	{"an empty user", `"https://@example.com/"`, "credentials_in_url"},
	{"a host that is a user", `"https://example.com:443@10.0.0.1/"`, "credentials_in_url"},
	{"port 80", `"https://example.com:80/"`, "port_not_allowed"},
	{"port 22", `"https://example.com:22/"`, "port_not_allowed"},
	{"port 1023", `"https://example.com:1023/"`, "port_not_allowed"},
	{"port 0", `"https://example.com:0/"`, "port_not_allowed"},
	{"port 65536", `"https://example.com:65536/"`, "port_not_allowed"},
	{"port with a zero in front", `"https://example.com:0443/"`, "port_not_allowed"},
	{"an empty port", `"https://example.com:/"`, "port_not_allowed"},
	{"localhost", `"https://localhost/"`, "host_not_public"},
	{"localhost in capitals", `"https://LOCALHOST:8443/"`, "host_not_public"},
	{"a name under localhost", `"https://a.localhost/"`, "host_not_public"},
	{"a name under local", `"https://printer.local/"`, "host_not_public"},
	{"a name under internal", `"https://metadata.google.internal/"`, "host_not_public"},
	{"a single label", `"https://intranet/"`, "host_not_public"},
	{"a dot at the end", `"https://example.com./"`, "host_not_public"},
	{"localhost with a dot", `"https://localhost./"`, "host_not_public"},
	{"10/8", `"https://10.0.0.1/"`, "host_not_public"},
	{"172.16/12", `"https://172.31.255.255/"`, "host_not_public"},
	{"192.168/16", `"https://192.168.1.1:8443/"`, "host_not_public"},
	{"carrier NAT", `"https://100.64.0.1/"`, "host_not_public"},
	{"cloud metadata", `"https://169.254.169.254/latest/meta-data"`, "host_not_public"},
	{"a cloud's platform", `"https://168.63.129.16/"`, "host_not_public"},
	{"this network", `"https://0.0.0.0/"`, "host_not_public"},
	{"broadcast", `"https://255.255.255.255/"`, "host_not_public"},
	{"multicast", `"https://224.0.0.1/"`, "host_not_public"},
	{"loopback of IPv6", `"https://[::1]/"`, "host_not_public"},
	{"unspecified of IPv6", `"https://[::]/"`, "host_not_public"},
	{"unique local", `"https://[fd00::1]/"`, "host_not_public"},
	{"link local", `"https://[fe80::1]/"`, "host_not_public"},
	{"mapped private", `"https://[::ffff:10.0.0.1]/"`, "host_not_public"},
	{"NAT64 of loopback", `"https://[64:ff9b::7f00:1]/"`, "host_not_public"},
	{"6to4 of private", `"https://[2002:a00:1::1]/"`, "host_not_public"},
	{"a zone", `"https://[fe80::1%25lo]/"`, "host_not_public"},
	{"a zone on a public address", `"https://[2606:4700::1111%25lo]/"`, "host_not_public"},
	{"decimal address", `"https://2130706433/"`, "host_not_public"},
	{"short address", `"https://127.1/"`, "host_not_public"},
	{"hexadecimal address", `"https://0x7f.1/"`, "host_not_public"},
	{"hexadecimal number", `"https://0x7f000001/"`, "host_not_public"},
	{"octal address", `"https://0177.0.0.1/"`, "host_not_public"},
	{"address of five parts", `"https://1.1.1.1.1/"`, "host_not_public"},
	{"not ASCII", `"https://ex\u00e4mple.com/"`, "host_not_public"},
	{"wide digits", `"https://\uff11\uff12\uff17.0.0.1/"`, "host_not_public"},
	{"an ideographic dot", `"https://127.0.0\u30021/"`, "host_not_public"},
	{"escaped host", `"https://%6cocalhost/"`, "host_not_public"},
	{"a name that does not resolve", `"https://partner.invalid/"`, "dns_failure"},
	{"2049 bytes", `"` + hookOf(2049) + `"`, "too_long"},
	{"60000 bytes", `"` + hookOf(60000) + `"`, "too_long"},
}

var goodTargets = []struct{ name, target string }{
	{"default port", "https://1.1.1.1/hooks"},
	{"port 443", "https://1.1.1.1:443"},
	{"port 1024", "https://1.1.1.1:1024/"},
	{"port 65535", "https://1.1.1.1:65535/a/b?c=d"},
	{"scheme in capitals", "HTTPS://1.1.1.1/Hooks"},
	{"IPv6", "https://[2606:4700:4700::1111]:8443/hooks"},
	{"2048 bytes", "https://1.1.1.1/" + strings.Repeat("x", 2048-len("https://1.1.1.1/"))},
}

// hookOf returns an https URL of length bytes.
func hookOf(length int) string {
	const head = "https://127.0.0.1.example.com/"
	return head + strings.Repeat("x", length-len(head))
}

// targets are the rules of target_url.
func targets() (cases []Case) {
	for _, c := range badTargets {
		body := `{"target_url":` + c.value + `,"events":["sentinel.fired"]}`
		if c.value == "" {
			body = `{"events":["sentinel.fired"]}`
		}
		cases = append(cases, rule("target/"+c.name,
			post("webhooks/subscribe", body, 400, refused("invalid_target_url", c.reason)),
		).then(func(s *Session) { s.wantSubscriptions() }))
	}
	for _, c := range goodTargets {
		cases = append(cases, rule("target/taken: "+c.name,
			post("webhooks/subscribe", `{"target_url":"`+c.target+`","events":["sentinel.fired"]}`, 201,
				subscription(c.target, `["sentinel.fired"]`, "null", "live"))))
	}
	return cases
}

func revoke() []Case {
	revoked := remove("webhooks/$(id)", 200, `{"ok":true}`)
	again := remove("webhooks/$(id)", 200, `{"ok":true,"already_revoked":true}`)
	missing := remove("webhooks/$(id)", 404, refused("subscription_not_found", ""))
	path := func(s Step, path string) Step { s.Path = path; return s }
	noID := remove("", 400, refused("invalid_id", ""))
	cases := []Case{
		rule("revoke/once and again", subscribeOK, revoked, again, again).then(wantSubscription("live", true)),
		rule("revoke/one of two",
			subscribeOK,
			path(missing, "webhooks/whs_01h455vb4pex5vsknk084sn02q"),
			subscribeOK.before(func(s *Session) { s.Set("kept", s.Get("id")) }),
			revoked,
		).then(func(s *Session) {
			one := Subscription{TargetURL: s.Get("hook"), Environment: "live", Events: []string{"sentinel.fired"}}
			other := one
			one.ID, other.ID, other.Revoked = s.Get("kept"), s.Get("id"), true
			s.wantSubscriptions(one, other)
		}),
		rule("revoke/by another account", subscribeOK, missing.as(Stranger)).then(wantSubscription("live", false)),
		rule("revoke/revoked, by another account", subscribeOK, revoked, missing.as(Stranger)),
		rule("revoke/by another key of the account", subscribeOK, revoked.as(Second)).then(wantSubscription("live", true)),
		rule("revoke/test subscription",
			post("webhooks/subscribe", hookBody, 201, subscribedTest).as(Test),
			revoked.as(Test)).then(wantSubscription("test", true)),
		rule("revoke/escaped id",
			subscribeOK,
			path(revoked, "webhooks/$(escaped)?x=y").
				before(func(s *Session) { s.Set("escaped", strings.Replace(s.Get("id"), "whs_", "%77hs%5F", 1)) })),
		rule("revoke/a body is left alone",
			subscribeOK,
			Step{Method: "DELETE", Path: "webhooks/$(id)", Body: "{", Status: 200, WantBody: `{"ok":true}`}),
		rule("revoke/the longest id and body",
			Step{Method: "DELETE", Path: "webhooks/" + strings.Repeat("a", 15_000), Body: strings.Repeat("x", 64<<10), Status: 404, WantBody: refused("subscription_not_found", "")}),
		rule("revoke/no id", path(noID, "webhooks/"), path(noID, "webhooks"), path(noID, "webhooks/?id=whs_1")),
		rule("revoke/id in capitals",
			subscribeOK,
			path(missing, "webhooks/$(capitals)").before(func(s *Session) { s.Set("capitals", strings.ToUpper(s.Get("id"))) }),
		).then(wantSubscription("live", false)),
	}
	for _, id := range []string{
		"whs_01h455vb4pex5vsknk084sn02q", "1", "%00", "%FF%FE", "%20", "..%2F..", "'%20OR%201=1--", "*",
		strings.Repeat("a", 4000), "whs_", "evt_01h455vb4pex5vsknk084sn02q", "%F0%9F%8F%A1",
	} {
		cases = append(cases, rule("revoke/unknown "+id[:min(len(id), 40)], path(missing, "webhooks/"+id)))
	}
	return cases
}

// wantSubscriptions compares the subscriptions that the account has.
func (s *Session) wantSubscriptions(want ...Subscription) {
	s.T.Helper()
	got := map[string]Subscription{}
	for _, g := range s.target.Fixture.Subscriptions(s.T, s.Account) {
		got[g.ID] = g
	}
	if len(got) != len(want) {
		s.T.Fatalf("%d subscriptions kept, want %d", len(got), len(want))
	}
	for _, w := range want {
		g := got[w.ID]
		if g.ID != w.ID || g.TargetURL != w.TargetURL || g.Environment != w.Environment || g.Revoked != w.Revoked || !slices.Equal(g.Events, w.Events) {
			s.T.Errorf("subscription kept as %+v, want %+v", g, w)
		}
	}
}
