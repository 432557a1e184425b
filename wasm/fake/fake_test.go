package fake

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
	"partneredge/wasm/targeturl"
)

const start = int64(1_750_000_000_000_000) // 2025-06-15T15:06:40Z

type clock struct{ at int64 }

func (c *clock) now() int64 { return c.at }

func TestDemoIsTheSameEveryTime(t *testing.T) {
	_, first := NewDemo(func() int64 { return start })
	backend, second := NewDemo(func() int64 { return start + Day })
	if first.Live != second.Live || first.Test != second.Test {
		t.Error("keys differ")
	}
	for token, env := range map[string]abi.Environment{second.Live: abi.EnvLive, second.Test: abi.EnvTest} {
		if !apikey.Valid(token) || !strings.HasPrefix(token, "svc_"+string(env)+"_") {
			t.Errorf("%s is no %s key", token, env)
		}
		if k, err := backend.Key(token); err != nil || k.AccountID != second.AccountID || k.Scopes != abi.AllScopes {
			t.Errorf("key %+v, %v", k, err)
		}
	}
}

func TestKeys(t *testing.T) {
	c := &clock{start}
	backend := New(c.now)
	p := backend.AddAccount(abi.Profile{})
	token, made := backend.AddKey(abi.Key{AccountID: p.AccountID, Allowlist: []string{"10.0.0.0/8"}})
	next, err := backend.RotateKey(made.ID, Minute)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := backend.Key(token); err != nil || k.GraceUntil != start+Minute || k.RateLimit != 100 || k.Expires != start+Year {
		t.Errorf("old key %+v, %v", k, err)
	}
	successor, err := backend.Key(next)
	if err != nil || successor.GraceUntil != 0 || successor.ID == made.ID || len(successor.Allowlist) != 1 {
		t.Errorf("new key %+v, %v", successor, err)
	}
	if err := backend.RevokeKey(successor.ID); err != nil {
		t.Fatal(err)
	}
	c.at++
	if err := backend.RevokeKey(successor.ID); err != nil {
		t.Fatal(err)
	}
	if successor, _ = backend.Key(next); successor.Revoked != start {
		t.Errorf("revoked at %d, want the first time, %d", successor.Revoked, start)
	}
	if _, err := backend.Key("svc_live_x"); err != abi.CodeNotFound {
		t.Errorf("unknown key: %v", err)
	}
	if err := backend.RevokeKey("key_x"); err != abi.CodeNotFound {
		t.Errorf("revoke of nothing: %v", err)
	}
	if _, err := backend.RotateKey("key_x", 0); err != abi.CodeNotFound {
		t.Errorf("rotation of nothing: %v", err)
	}
}

// A bucket never lets through more than it held plus what flowed in, says
// exactly how long to wait, and is as full as it says.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &clock{start}
		backend := New(c.now)
		limit := rapid.IntRange(1, 1000).Draw(t, "limit")
		allowed := 0
		for _, step := range rapid.SliceOf(rapid.Int64Range(0, 90*Second)).Draw(t, "steps") {
			c.at += step
			b, err := backend.Take("k", limit)
			if err != nil {
				t.Fatal(err)
			}
			if b.Allowed {
				allowed++
			}
			if most := int64(limit) + int64(limit)*(c.at-start)/Minute; int64(allowed) > most {
				t.Fatalf("%d let through, at most %d", allowed, most)
			}
			if b.Allowed == (b.RetryMS != 0) || b.Remaining < 0 || b.Remaining > limit || b.ResetMS > 60_000 {
				t.Fatalf("%+v", b)
			}
		}
		var b abi.Bucket
		for ok := true; ok; ok = b.Allowed {
			b, _ = backend.Take("k", limit)
		}
		c.at += (b.RetryMS - 1) * 1000
		if b, _ = backend.Take("k", limit); b.Allowed {
			t.Fatal("let through before the time told")
		}
		c.at += 1000
		if b, _ = backend.Take("k", limit); !b.Allowed {
			t.Fatal("not let through at the time told")
		}
		c.at += b.ResetMS * 1000
		if b, _ = backend.Take("k", limit); b.Remaining != limit-1 {
			t.Fatalf("%d left of a bucket that was to be full, of %d", b.Remaining, limit)
		}
	})
}

func TestBucketClock(t *testing.T) {
	c := &clock{start}
	backend := New(c.now)
	var b abi.Bucket
	for range 2 {
		b, _ = backend.Take("k", 2)
	}
	c.at -= Day
	if b, _ = backend.Take("k", 2); b.Allowed {
		t.Error("a clock put back filled the bucket")
	}
	c.at += 300 * Year
	if b, _ = backend.Take("k", 2); !b.Allowed || b.Remaining != 1 {
		t.Errorf("after very long: %+v", b)
	}
}

func TestLockout(t *testing.T) {
	c := &clock{start}
	backend := New(c.now)
	fail := func(client string, n int) (ms int64) {
		for range n {
			ms, _ = backend.Failure(client)
		}
		return ms
	}
	if ms := fail("10.0.0.1", 19); ms != 0 {
		t.Fatalf("locked out for %d ms after 19 failures", ms)
	}
	c.at += 5*Minute - 1
	if ms := fail("10.0.0.1", 1); ms != 15*60_000 {
		t.Fatalf("the 20th locks out for %d ms", ms)
	}
	if ms, _ := backend.Lockout("10.0.0.2"); ms != 0 {
		t.Error("another address is locked out too")
	}
	c.at += 15*Minute - 1
	if ms, _ := backend.Lockout("10.0.0.1"); ms != 1 {
		t.Errorf("%d ms left a microsecond before the end, want 1", ms)
	}
	c.at++
	if ms, _ := backend.Lockout("10.0.0.1"); ms != 0 {
		t.Errorf("%d ms left at the end", ms)
	}

	fail("10.0.0.3", 19)
	c.at += 5 * Minute
	if ms := fail("10.0.0.3", 1); ms != 0 {
		t.Error("failures that are too old were counted")
	}

	fail("2001:db8:1:2::1", 10)
	if ms := fail("2001:db8:1:2:ffff::9", 10); ms == 0 {
		t.Error("one /64 was counted as two addresses")
	}
	if ms, _ := backend.Lockout("2001:db8:1:3::1"); ms != 0 {
		t.Error("the next /64 is locked out too")
	}
	fail("::ffff:10.0.0.4", 20)
	if ms, _ := backend.Lockout("::ffff:10.0.0.5"); ms != 0 {
		t.Error("all of IPv4 is locked out as one /64")
	}
}

// Whatever times firings are given, no two share one, the list is in order,
// and pages of any size show each exactly once.
func TestFiringsPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		backend := New(func() int64 { return start })
		p := backend.AddAccount(abi.Profile{})
		v := backend.For(abi.Principal{AccountID: p.AccountID})
		times := rapid.SliceOf(rapid.Int64Range(start, start+6)).Draw(t, "times")
		for _, at := range times {
			if _, err := backend.AddFiring(p.AccountID, abi.Firing{Triggered: at}); err != nil {
				t.Fatal(err)
			}
		}
		limit := rapid.IntRange(1, 5).Draw(t, "limit")
		seen := map[string]bool{}
		var page abi.Firings
		for before := int64(0); ; {
			if err := v.Firings(before, limit, &page); err != nil {
				t.Fatal(err)
			}
			for _, it := range page.Items {
				if seen[it.ID] || before != 0 && it.Triggered >= before {
					t.Fatalf("%v comes again or out of order", it)
				}
				seen[it.ID], before = true, it.Triggered
			}
			if !page.More {
				break
			}
			if len(page.Items) != limit {
				t.Fatalf("%d on a page of %d with more to come", len(page.Items), limit)
			}
		}
		if len(seen) != len(times) {
			t.Fatalf("%d of %d shown", len(seen), len(times))
		}
	})
}

func TestInsights(t *testing.T) {
	backend := New(func() int64 { return start })
	p := backend.AddAccount(abi.Profile{})
	v := backend.For(abi.Principal{AccountID: p.AccountID})
	var list abi.Insights
	if err := v.Insights(0, 10, &list); err != nil || list.History {
		t.Fatalf("%+v, %v", list, err)
	}
	for i := range int64(3) {
		_, _ = backend.AddInsight(p.AccountID, abi.Insight{Headline: strconv.FormatInt(i, 10), Created: start + i})
	}
	if _ = v.Insights(start, 10, &list); len(list.Items) != 2 || list.Items[0].Headline != "2" {
		t.Errorf("after start: %+v", list)
	}
	if _ = v.Insights(start+2, 10, &list); len(list.Items) != 0 || !list.History {
		t.Errorf("after the last: %+v", list)
	}
	if err := backend.For(abi.Principal{AccountID: "acc_x"}).Insights(0, 1, &list); err != abi.CodeNotFound {
		t.Errorf("unknown account: %v", err)
	}
}

func TestSubscriptions(t *testing.T) {
	c := &clock{start}
	backend := New(c.now)
	p, other := backend.AddAccount(abi.Profile{}), backend.AddAccount(abi.Profile{})
	v := backend.For(abi.Principal{AccountID: p.AccountID, Environment: abi.EnvTest})
	add := func(id, target string) (string, error) {
		return v.Subscribe(&abi.Subscription{ID: id, Target: target, Events: []string{"sentinel.fired"}})
	}
	for i := range 101 { // one of them twice
		if reason, err := add("whs_"+strconv.Itoa(max(i, 1)), "https://example.com/"); reason != "" || err != nil {
			t.Fatal(reason, err)
		}
	}
	if _, err := add("whs_more", "https://example.com/"); err != abi.CodeLimit {
		t.Errorf("one too many: %v", err)
	}
	live := backend.For(abi.Principal{AccountID: p.AccountID, Environment: abi.EnvLive})
	if _, err := live.Subscribe(&abi.Subscription{ID: "whs_live", Target: "https://example.com/", Events: []string{"sentinel.fired"}}); err != nil {
		t.Errorf("in the other environment: %v", err)
	}
	if _, err := backend.For(abi.Principal{AccountID: other.AccountID}).Revoke("whs_1"); err != abi.CodeNotFound {
		t.Errorf("revoked by another account: %v", err)
	}
	for _, want := range []bool{false, true} {
		if already, err := v.Revoke("whs_1"); already != want || err != nil {
			t.Errorf("revoke: %t, %v", already, err)
		}
		c.at++
	}
	if reason, err := add("whs_more", "https://example.com/"); reason != "" || err != nil {
		t.Errorf("with room again: %s, %v", reason, err)
	}
	list := backend.Subscriptions(p.AccountID)
	if len(list) != 102 || list[0].Revoked != start || list[0].Environment != abi.EnvTest {
		t.Errorf("%d kept, the first %+v", len(list), list[0])
	}
}

func TestGuard(t *testing.T) {
	for host, want := range map[string]string{
		"example.com": "", "a.invalid": targeturl.DNSFailure, "1.1.1.1": "", "2606:4700::1111": "",
		"127.0.0.1": targeturl.HostNotPublic, "10.1.2.3": targeturl.HostNotPublic,
		"169.254.169.254": targeturl.HostNotPublic, "168.63.129.16": targeturl.HostNotPublic,
		"0.0.0.0": targeturl.HostNotPublic, "::1": targeturl.HostNotPublic, "::": targeturl.HostNotPublic,
		"::ffff:127.0.0.1": targeturl.HostNotPublic, "64:ff9b::7f00:1": targeturl.HostNotPublic,
		"fd00::1": targeturl.HostNotPublic, "fe80::1": targeturl.HostNotPublic, "224.0.0.1": targeturl.HostNotPublic,
	} {
		if got := PublicOnly(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}

// What is kept must not change when the request's bytes do.
// TestEventTimesRise: an event is made after the account's last one, also while the clock
// stands or is put back.
func TestEventTimesRise(t *testing.T) {
	c := &clock{start}
	backend := New(c.now)
	p := backend.AddAccount(abi.Profile{})
	for i, at := range []int64{start, start, start - Day} {
		c.at = at
		e, err := backend.Emit(p.AccountID, abi.EventSentinelFired, nil)
		if made := e.CreatedAt.UnixMicro(); err != nil || made != start+int64(i) {
			t.Errorf("event %d: made at %d, %v, want %d", i, made, err, start+int64(i))
		}
	}
}

func TestKeptApart(t *testing.T) {
	backend := New(func() int64 { return start })
	p := backend.AddAccount(abi.Profile{})
	v := backend.For(abi.Principal{AccountID: p.AccountID})
	frame := (&abi.Lead{ID: "lead_1", FirstName: "Ana", Email: "a@example.com"}).Append(nil)
	var lead abi.Lead
	if err := lead.Parse(frame); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := v.Lead(&lead); err != nil {
			t.Fatal(err)
		}
	}
	clear(frame)
	if kept := backend.Leads(p.AccountID); len(kept) != 1 || kept[0].ID != "lead_1" || kept[0].FirstName != "Ana" {
		t.Errorf("%+v", kept)
	}
}

func TestFail(t *testing.T) {
	backend, d := NewDemo(func() int64 { return start })
	v := backend.For(abi.Principal{AccountID: d.AccountID})
	for op, call := range map[abi.Op]func() error{
		abi.OpLockout:       func() error { _, err := backend.Lockout("::1"); return err },
		abi.OpFailure:       func() error { _, err := backend.Failure("::1"); return err },
		abi.OpKey:           func() error { _, err := backend.Key(d.Live); return err },
		abi.OpTake:          func() error { _, err := backend.Take("k", 1); return err },
		abi.OpProfile:       func() error { _, err := v.Profile(); return err },
		abi.OpInsights:      func() error { return v.Insights(0, 1, &abi.Insights{}) },
		abi.OpFirings:       func() error { return v.Firings(0, 1, &abi.Firings{}) },
		abi.OpSubscribe:     func() error { _, err := v.Subscribe(&abi.Subscription{}); return err },
		abi.OpSubscribeOnce: func() error { _, err := v.SubscribeOnce(&abi.SubscribeOnce{}); return err },
		abi.OpRevoke:        func() error { _, err := v.Revoke("x"); return err },
		abi.OpLead:          func() error { return v.Lead(&abi.Lead{}) },
		abi.OpLeadOnce:      func() error { _, err := v.LeadOnce(&abi.Once{}); return err },
	} {
		if err := call(); err == abi.CodeUnavailable {
			t.Errorf("op %d fails before Fail", op)
		}
		backend.Fail(op, abi.CodeUnavailable)
		if err := call(); err != abi.CodeUnavailable {
			t.Errorf("op %d: %v after Fail", op, err)
		}
		backend.Fail(op, 0)
		if err := call(); err == abi.CodeUnavailable {
			t.Errorf("op %d still fails", op)
		}
	}
}

// TestMostItems: the Backend lists no more than a node does, whatever the limit.
func TestMostItems(t *testing.T) {
	backend := New(func() int64 { return start })
	p := backend.AddAccount(abi.Profile{})
	for range abi.MaxInsights + 10 {
		if _, err := backend.AddInsight(p.AccountID, abi.Insight{}); err != nil {
			t.Fatal(err)
		}
	}
	for range abi.MaxFirings + 10 {
		if _, err := backend.AddFiring(p.AccountID, abi.Firing{}); err != nil {
			t.Fatal(err)
		}
	}
	v := backend.For(abi.Principal{AccountID: p.AccountID})
	for _, tt := range []struct{ limit, insights, firings int }{
		{10, 10, 10}, {abi.MaxInsights, abi.MaxInsights, abi.MaxInsights}, {abi.MaxInsights + 1, abi.MaxInsights, abi.MaxInsights + 1},
		{abi.MaxFirings, abi.MaxInsights, abi.MaxFirings}, {abi.MaxFirings + 1, abi.MaxInsights, abi.MaxFirings}, {1 << 30, abi.MaxInsights, abi.MaxFirings},
	} {
		var insights abi.Insights
		var firings abi.Firings
		if err := errors.Join(v.Insights(0, tt.limit, &insights), v.Firings(0, tt.limit, &firings)); err != nil {
			t.Fatal(err)
		}
		if len(insights.Items) != tt.insights || len(firings.Items) != tt.firings || !firings.More {
			t.Errorf("limit %d: %d insights and %d firings, more %v; want %d and %d, and more",
				tt.limit, len(insights.Items), len(firings.Items), firings.More, tt.insights, tt.firings)
		}
	}
}

// TestLeadOnce: the Backend chooses the id of a lead that is kept once, as a node does, and
// every answer has the id that is kept.
func TestLeadOnce(t *testing.T) {
	for _, environment := range []abi.Environment{abi.EnvLive, abi.EnvTest} {
		c := &clock{start}
		backend := New(c.now)
		p := backend.AddAccount(abi.Profile{})
		v := backend.For(abi.Principal{AccountID: p.AccountID, KeyID: "key_1", Environment: environment})
		once := func(digest string, want abi.Outcome) string {
			t.Helper()
			o := abi.Once{Key: "order 7", Digest: digest, Lead: abi.Lead{ID: "lead_own", FirstName: "Ana"}}
			kept, err := v.LeadOnce(&o)
			if err != nil || kept.Outcome != want || o.Lead.ID != "lead_own" {
				t.Errorf("%s key: %+v, %v, want the outcome %d", environment, kept, err, want)
			}
			return kept.ID
		}
		first := once("a", abi.New)
		if !strings.HasPrefix(first, "lead_") || first == "lead_own" {
			t.Errorf("%s key: the id is %q, want one of the Backend's", environment, first)
		}
		if again := once("a", abi.Repeat); again != first {
			t.Errorf("%s key: the id of the repeat is %q, want %q", environment, again, first)
		}
		if other := once("b", abi.Conflict); other != "" {
			t.Errorf("%s key: the id of a conflict is %q", environment, other)
		}
		c.at += Day
		want := []string{first, once("a", abi.New)}
		if want[1] == first {
			t.Errorf("%s key: two leads have the id %q", environment, first)
		}
		if environment == abi.EnvTest {
			want = nil
		}
		var got []string
		for _, l := range backend.Leads(p.AccountID) {
			got = append(got, l.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s key: kept %q, want %q", environment, got, want)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	backend, d := NewDemo(func() int64 { return start })
	v := backend.For(abi.Principal{AccountID: d.AccountID})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			id := strconv.Itoa(i)
			for j := range 50 {
				_, _ = backend.Failure("10.0.0." + id)
				_, _ = backend.Key(d.Live)
				_, _ = backend.Take("k", 100)
				_ = v.Firings(0, 10, &abi.Firings{})
				_, _ = backend.AddFiring(d.AccountID, abi.Firing{Triggered: start})
				_ = v.Lead(&abi.Lead{ID: "lead_" + id + "_" + strconv.Itoa(j)})
			}
		})
	}
	wg.Wait()
	var b abi.Bucket
	if b, _ = backend.Take("k", 100); b.Allowed {
		t.Error("more than 100 let through")
	}
	if n := len(backend.Leads(d.AccountID)); n != 400 {
		t.Errorf("%d leads kept, want 400", n)
	}
}
