package sandboxctl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

// run executes lines on a demo backend and returns the answers.
func run(t testing.TB, lines string) (answers []Answer, backend *fake.Backend, clock *fake.Clock) {
	t.Helper()
	clock = fake.NewClock()
	backend, demo := fake.NewDemo(clock.Now)
	var out bytes.Buffer
	if err := (Controller{backend, clock, demo.AccountID}).Serve(strings.NewReader(lines), &out); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		var a Answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		answers = append(answers, a)
	}
	return answers, backend, clock
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{`{"do":"fly"}`, `"fly" is no command`},
		{`{}`, `"" is no command`},
		{`do`, "invalid character"},
		{`{"do":"clock"}`, "at is missing"},
		{`{"do":"advance"}`, "milliseconds is missing"},
		{`{"do":"key","account":"acc_nobody","environment":"live"}`, `there is no account "acc_nobody"`},
		{`{"do":"leads","account":"acc_nobody"}`, `there is no account "acc_nobody"`},
		{`{"do":"key","environment":"staging"}`, "neither live nor test"},
		{`{"do":"key","environment":"live","scopes":["read:all"]}`, `"read:all" is no scope`},
		{`{"do":"key","environment":"live","state":"lost"}`, `"lost" is no state`},
		{`{"do":"key","environment":"live","allowlist":["192.0.2.7","office"]}`, `"office" is neither an address nor a network`},
		{`{"do":"key","environment":"live","allowlist":["fe80::1%lo"]}`, "neither an address nor a network"},
		{`{"do":"key","environment":"live","scope":["read:agent"]}`, `unknown field "scope"`},
		{`{"do":"leads"}}`, "more follows"},
		{`{"do":"insights","insights":[{"headline":" ","detail":"d"}]}`, "headline is missing"},
		{`{"do":"firings","firings":[{"sentinel_name":"","action_taken":"a","trigger_data":{}}]}`, "sentinel_name or action_taken is missing"},
		{`{"do":"firings","firings":[{"sentinel_name":"s","action_taken":"\t","trigger_data":{}}]}`, "sentinel_name or action_taken is missing"},
		{`{"do":"firings","firings":[{"sentinel_name":"s","action_taken":"a"}]}`, "trigger_data is no object"},
		{`{"do":"firings","firings":[{"sentinel_name":"s","action_taken":"a","trigger_data":null}]}`, "trigger_data is no object"},
		{`{"do":"firings","firings":[{"sentinel_name":"s","action_taken":"a","trigger_data":{}},{"sentinel_name":"s","action_taken":"a","trigger_data":[1]}]}`, "trigger_data is no object"},
		{`{"do":"firings","firings":[{"sentinel_name":"s","action_taken":"a","trigger_data":{"a":"\ud83d"}}]}`, "trigger_data is no object that every reader"},
		{`{"do":"firings","firings":[{"sentinel_name":"s","action_taken":"a","trigger_data":{"a":1e400}}]}`, "trigger_data is no object that every reader"},
		{`{"do":"contact","client":" ","channel":"sms"}`, "client is missing"},
		{`{"do":"deal","id":"d","stage":" "}`, "stage is missing"},
		{`{"do":"revoke","key":"svc_live_nobody"}`, "there is no such key"},
		{`{"do":"rotate","key":"svc_live_nobody"}`, "there is no such key"},
		{`{"do":"rotate_secret","id":"whs_nobody"}`, `there is no subscription "whs_nobody"`},
		{`{"do":"rotate_secret","account":"acc_nobody","id":"whs_1"}`, `there is no account "acc_nobody"`},
		{`{"do":"insights","account":"acc_nobody","insights":[{"headline":"h"}]}`, `there is no account "acc_nobody"`},
		{`{"do":"contact","account":"acc_nobody","client":"c","channel":"sms"}`, `there is no account "acc_nobody"`},
		{`{"do":"contact","channel":"fax"}`, "none of phone, email and sms"},
		{`{"do":"contact","channel":"sms"}`, "client is missing"},
		{`{"do":"deal","id":"d"}`, "stage is missing"},
		{`{"do":"goal","pace":"ahead"}`, "id is missing"},
		{`{"do":"goal","id":"g","pace":"fast"}`, "none of on_pace, behind and ahead"},
		{`{"do":"firings","account":"acc_nobody","firings":[{"sentinel_name":"s"}]}`, `there is no account "acc_nobody"`},
	} {
		// The command after one that fails is executed.
		answers, _, _ := run(t, tt.line+"\n"+`{"do":"account"}`)
		if len(answers) != 2 || !strings.Contains(answers[0].Error, tt.want) || answers[1].ID == "" {
			t.Errorf("%s: %+v, want an error with %q, then an account", tt.line, answers, tt.want)
		}
	}
}

func TestClock(t *testing.T) {
	_, _, clock := run(t, `{"do":"clock","at":"2026-01-02T03:04:05Z"}`+"\n"+`{"do":"advance","milliseconds":1500}`)
	if got, want := clock.Now(), time.Date(2026, 1, 2, 3, 4, 6, 500e6, time.UTC).UnixMicro(); got != want {
		t.Errorf("%d, want %d", got, want)
	}
	running := new(fake.Clock)
	running.Advance(time.Hour)
	if ahead := time.Duration(running.Now()-time.Now().UnixMicro()) * time.Microsecond; ahead < 59*time.Minute || ahead > 61*time.Minute {
		t.Errorf("a running clock is %v ahead, want 1h", ahead)
	}
}

func TestKeys(t *testing.T) {
	for _, tt := range []struct {
		state State
		ended func(k *abi.Key, now int64) bool
	}{
		{Active, func(k *abi.Key, now int64) bool { return k.Expires > now && k.Revoked == 0 && k.GraceUntil == 0 }},
		{InGrace, func(k *abi.Key, now int64) bool { return k.GraceUntil > now }},
		{GraceExpired, func(k *abi.Key, now int64) bool { return k.GraceUntil != 0 && k.GraceUntil <= now }},
		{Expired, func(k *abi.Key, now int64) bool { return k.Expires <= now }},
		{Revoked, func(k *abi.Key, _ int64) bool { return k.Revoked != 0 }},
	} {
		line, err := json.Marshal(Command{Do: "key", Environment: "test", RateLimit: 7, State: tt.state, Scopes: []string{"write:leads"}})
		if err != nil {
			t.Fatal(err)
		}
		answers, backend, clock := run(t, string(line))
		k, err := backend.Key(answers[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := backend.For(abi.Principal{AccountID: k.AccountID}).Profile(); err != nil {
			t.Errorf("the key is of account %q: %v", k.AccountID, err)
		}
		if !tt.ended(&k, clock.Now()) || k.RateLimit != 7 || k.Scopes != abi.WriteLeads || k.Environment != abi.EnvTest {
			t.Errorf("%q: %+v", tt.state, k)
		}
	}
}

// TestRotateKey: a key that is active gets a successor that is alike, and is valid for a week.
func TestRotateKey(t *testing.T) {
	clock := fake.NewClock()
	backend, demo := fake.NewDemo(clock.Now)
	c := Controller{backend, clock, demo.AccountID}
	for state, refused := range map[State]string{
		Active: "", InGrace: "has been rotated", GraceExpired: "has been rotated", Expired: "has expired", Revoked: "is revoked",
	} {
		made, err := c.Do(Command{Do: "key", Environment: "test", RateLimit: 7, State: state})
		if err != nil {
			t.Fatal(err)
		}
		next, err := c.Do(Command{Do: "rotate", Key: made.Key})
		if refused != "" {
			if err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("%q: %+v, %v; want that it %s", state, next, err, refused)
			}
			continue
		}
		old, _ := backend.Key(made.Key)
		successor, err := backend.Key(next.Key)
		if err != nil || successor.RateLimit != 7 || successor.Environment != abi.EnvTest || successor.GraceUntil != 0 {
			t.Errorf("the successor is %+v, %v", successor, err)
		}
		if want := clock.Now() + 7*fake.Day; old.GraceUntil != want {
			t.Errorf("the key is valid until %d, want %d", old.GraceUntil, want)
		}
	}
}

// TestRotateSecret: for a day both secrets sign what is delivered, and nothing rotates again.
func TestRotateSecret(t *testing.T) {
	clock := fake.NewClock()
	backend, demo := fake.NewDemo(clock.Now)
	c := Controller{backend, clock, demo.AccountID}
	live := backend.For(abi.Principal{AccountID: demo.AccountID, Environment: abi.EnvLive})
	request := &abi.SubscribeOnce{Key: "k", Digest: "d", Subscription: abi.Subscription{
		ID: "whs_1", Target: "https://1.1.1.1/", Secret: "s1", Events: []string{"client.contacted"},
	}}
	answered := func(want abi.Outcome) {
		t.Helper()
		if got, err := live.SubscribeOnce(request); err != nil || got.Outcome != want {
			t.Errorf("the request is answered with %+v, %v; want outcome %v", got, err, want)
		}
	}
	answered(abi.New)
	answered(abi.Repeat)
	signed := func(secret, previous string) {
		t.Helper()
		made, err := c.Do(Command{Do: "contact", Client: "c", Channel: "sms"})
		if err != nil {
			t.Fatal(err)
		}
		if d := made.Events[0].Deliveries[0]; d.Secret != secret || d.PreviousSecret != previous {
			t.Errorf("an event is signed with %+v, want %q and %q", d, secret, previous)
		}
		listed, err := c.Do(Command{Do: "subscriptions"})
		if s := listed.Subscriptions[0]; err != nil || s.Secret != secret || s.PreviousSecret != previous {
			t.Errorf("the subscription is %+v, %v; want %q and %q", s, err, secret, previous)
		}
	}
	rotate := Command{Do: "rotate_secret", ID: "whs_1"}
	signed("s1", "")
	made, err := c.Do(rotate)
	if err != nil || len(made.Secret) != 64 {
		t.Fatalf("the new secret is %q, %v", made.Secret, err)
	}
	answered(abi.Conflict) // the answer had another secret
	signed(made.Secret, "s1")
	clock.Advance(24*time.Hour - time.Microsecond)
	if _, err := c.Do(rotate); err == nil || !strings.Contains(err.Error(), "signs as well until ") {
		t.Errorf("rotated again: %v", err)
	}
	signed(made.Secret, "s1")
	clock.Advance(time.Microsecond)
	signed(made.Secret, "")
	if again, err := c.Do(rotate); err != nil || again.Secret == made.Secret {
		t.Errorf("a day later it is %q, %v", again.Secret, err)
	}
	if _, err := live.Revoke("whs_1"); err != nil {
		t.Fatal(err)
	}
	clock.Advance(48 * time.Hour)
	if _, err := c.Do(rotate); err == nil || !strings.Contains(err.Error(), "is revoked") {
		t.Errorf("a revoked one is rotated: %v", err)
	}
}

// TestAllowlist: addresses and networks are kept as a node's origin keeps them.
func TestAllowlist(t *testing.T) {
	answers, backend, _ := run(t, `{"do":"key","environment":"live","allowlist":["192.0.2.7","10.1.2.3/8","::ffff:198.51.100.1"]}`)
	k, err := backend.Key(answers[0].Key)
	if want := []string{"192.0.2.7/32", "10.0.0.0/8", "198.51.100.1/32"}; err != nil || !slices.Equal(k.Allowlist, want) {
		t.Errorf("%q, %v; want %q", k.Allowlist, err, want)
	}
}

// TestEvents: what a command makes happen is delivered to live subscriptions of its
// type, while the account is live.
func TestEvents(t *testing.T) {
	clock := fake.NewClock()
	backend, demo := fake.NewDemo(clock.Now)
	c := Controller{Backend: backend, Clock: clock}
	live := abi.Principal{AccountID: demo.AccountID, Environment: abi.EnvLive}
	for _, s := range []abi.Subscription{
		{ID: "whs_all", Target: "https://1.1.1.1/", Secret: "s1", Events: []string{"agent.coaching_insight_created", "sentinel.fired", "client.contacted", "deal.stage_changed", "goal.pace_changed"}},
		{ID: "whs_deals", Target: "https://1.1.1.1/", Secret: "s2", Events: []string{"deal.stage_changed"}},
		{ID: "whs_gone", Target: "https://1.1.1.1/", Secret: "s3", Events: []string{"deal.stage_changed"}},
	} {
		if reason, err := backend.For(live).Subscribe(&s); reason != "" || err != nil {
			t.Fatal(reason, err)
		}
	}
	if _, err := backend.For(live).Revoke("whs_gone"); err != nil {
		t.Fatal(err)
	}
	test := live
	test.Environment = abi.EnvTest
	if _, err := backend.For(test).Subscribe(&abi.Subscription{ID: "whs_test", Target: "https://1.1.1.1/", Events: []string{"deal.stage_changed"}}); err != nil {
		t.Fatal(err)
	}
	quiet := backend.AddAccount(abi.Profile{}).AccountID // in setup
	for _, tt := range []struct {
		command Command
		kind    string // "": no event
		data    string
		to      int // subscriptions
	}{
		{Command{Do: "insights", Insights: []Insight{{Headline: "new"}, {Headline: "old", Created: time.UnixMicro(clock.Now() - 1)}}}, "agent.coaching_insight_created", `"headline":"new"`, 1},
		{Command{Do: "insights"}, "", "", 0},
		{Command{Do: "firings", Firings: []Firing{{Name: "stale", Action: "none", Data: json.RawMessage("{}")}}}, "sentinel.fired", `"sentinel_name":"stale"`, 1},
		{Command{Do: "contact", Client: "c1", Channel: "sms"}, "client.contacted", `"channel":"sms"`, 1},
		{Command{Do: "deal", ID: "d1", Stage: "offer"}, "", "", 0},
		{Command{Do: "deal", ID: "d1", Stage: "offer"}, "", "", 0},
		{Command{Do: "deal", ID: "d1", Stage: "closed"}, "deal.stage_changed", `"from_stage":"offer","to_stage":"closed"`, 2},
		{Command{Do: "goal", ID: "d1", Pace: "ahead"}, "", "", 0},
		{Command{Do: "goal", ID: "d1", Pace: "behind"}, "goal.pace_changed", `"pace":"behind","previous_pace":"ahead"`, 1},
		{Command{Do: "contact", Client: "c1", Channel: "phone", Account: quiet}, "client.contacted", `"channel":"phone"`, 0},
	} {
		if tt.command.Account == "" {
			tt.command.Account = demo.AccountID
		}
		a, err := c.Do(tt.command)
		if err != nil {
			t.Fatalf("%+v: %v", tt.command, err)
		}
		if tt.kind == "" {
			if len(a.Events) != 0 {
				t.Errorf("%+v emits %+v", tt.command, a.Events)
			}
			continue
		}
		if len(a.Events) != 1 || a.Events[0].Type != tt.kind || !strings.Contains(string(a.Events[0].Body), tt.data) || len(a.Events[0].Deliveries) != tt.to {
			t.Errorf("%+v emits %+v, want %s with %s for %d", tt.command, a.Events, tt.kind, tt.data, tt.to)
		}
	}
}

func TestClient(t *testing.T) {
	in, commands := io.Pipe()
	answers, out := io.Pipe()
	clock := fake.NewClock()
	backend, demo := fake.NewDemo(clock.Now)
	served := make(chan error)
	go func() { served <- Controller{Backend: backend, Clock: clock}.Serve(in, out) }()
	c := NewClient(commands, bufio.NewReader(answers))
	if _, err := c.Do(Command{Do: "insights", Account: demo.AccountID, Insights: []Insight{{Headline: "new"}}}); err != nil {
		t.Error(err)
	}
	if _, err := c.Do(Command{Do: "fly"}); err == nil || !strings.Contains(err.Error(), "no command") {
		t.Errorf("error %v", err)
	}
	// Of the largest commands the program reads the line, or is not sent it.
	if _, err := c.Do(Command{Do: "account", Name: strings.Repeat("<", MaxLine/2)}); err != nil {
		t.Error(err)
	}
	if _, err := c.Do(Command{Do: "account", Name: strings.Repeat("\x01", MaxLine/2)}); err == nil || !strings.Contains(err.Error(), "bytes of JSON") {
		t.Errorf("a line that is too long: %v", err)
	}
	longest := Command{Do: "account"}
	line, err := json.Marshal(longest)
	if err != nil {
		t.Fatal(err)
	}
	for n := MaxLine - len(line) - len(`,"name":""`) - 2; n < MaxLine; n++ {
		longest.Name = strings.Repeat("n", n)
		if _, err := c.Do(longest); err != nil {
			if !strings.Contains(err.Error(), "bytes of JSON") {
				t.Error(err)
			}
			break
		}
	}
	if _, err := c.Do(Command{Do: "account"}); err != nil {
		t.Errorf("after those: %v", err)
	}
	commands.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	out.Close()
	if _, err := c.Do(Command{Do: "account"}); err == nil {
		t.Error("a command succeeded after the program ended")
	}
}

// FuzzServe checks that every line is answered with one line of JSON.
func FuzzServe(f *testing.F) {
	f.Add(`{"do":"account","name":"Lima Realty","live":true}` + "\n" + `{"do":"leads","account":"acc_1"}`)
	f.Add(`{"do":"key","account":"a","environment":"live","scopes":["read:agent"],"rate_limit":-1,"allowlist":["::/0"],"state":"in_grace"}`)
	f.Add(`{"do":"clock","at":"0001-01-01T00:00:01Z"}` + "\n" + `{"do":"advance","milliseconds":-9223372036854775808}`)
	f.Add(`{"do":"outage","on":true}` + "\n\n{")
	f.Fuzz(func(t *testing.T, lines string) {
		answers, _, _ := run(t, lines)
		n := 0
		for s := bufio.NewScanner(strings.NewReader(lines)); s.Scan(); {
			n++
		}
		if len(lines) < 64<<10 && len(answers) != n {
			t.Errorf("%d answers to %d lines", len(answers), n)
		}
	})
}
