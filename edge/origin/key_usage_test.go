package origin

import (
	"fmt"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/centraltest"
	"partneredge/store/central/usage"
)

// TestKeyUsage has nodes report what a key was used for: each counter counts once,
// however often it is reported and by which process, and the admin API shows the sum.
func TestKeyUsage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	key, _ := f.limited(account, 100)
	other, _ := f.limited(account, 100)
	now := time.Now().UTC()
	today := store.DayOf(now)
	one, two := f.enrol("n1"), f.enrol("n2")
	seq := int64(0)
	report := func(n *enrolled, boot string, day store.Day, keys map[string]wire.UsageKey) {
		t.Helper()
		shares := sharesFor(t, n.conn, n.id)
		seq++
		usage := &wire.Usage{Boot: boot, Day: day, Seq: seq, Keys: keys}
		if r := ask[wire.Head](n, wire.VerbSpend, wire.Spend{Head: head, Boot: "b", Usage: usage}); r.Failure != "" {
			t.Fatalf("spend: %+v", r)
		}
		shares(func(s wire.Share) bool { return s.Used != nil && *s.Used == wire.Used{Boot: boot, Seq: seq} })
	}
	of := func(requests, limited int64) map[string]wire.UsageKey {
		return map[string]wire.UsageKey{
			key:      {Requests: requests, Limited: limited, LastUsed: now.Unix(), KeyHash: f.hash(key)},
			other:    {Requests: 1000, LastUsed: now.Unix(), KeyHash: f.hash(key)}, // which it does not hold
			"key_no": {Requests: 1000, LastUsed: now.Unix()},
		}
	}
	report(one, "c1", today, of(5, 1))
	report(one, "c1", today, of(3, 0)) // late
	report(one, "c1", today, of(7, 2))
	report(two, "c1", today, of(10, 0))
	report(one, "c1", today-1, of(20, 0))
	f.stop()
	f.start()
	for _, n := range []*enrolled{one, two} {
		n.conn.Close()
		conn, err := n.connect()
		if err != nil {
			t.Fatal(err)
		}
		n.conn = conn
	}
	report(one, "c1", today, of(7, 2)) // it did not hear that this was kept
	report(one, "c2", today, of(1, 0)) // after a restart of the node

	used := func(id, query string) []any {
		t.Helper()
		return f.must(http.StatusOK, "GET", "/admin/v1/keys/"+id+"/usage"+query, nil)["items"].([]any)
	}
	days := used(key, "")
	want := []object{
		{"day": today.String(), "requests": 18.0, "limited": 2.0},
		{"day": (today - 1).String(), "requests": 20.0, "limited": 0.0},
	}
	if fmt.Sprint(days) != fmt.Sprint([]any{want[0], want[1]}) {
		t.Errorf("the key was used %v, want %v", days, want)
	}
	if days := used(key, "?days=1"); len(days) != 1 && store.DayOf(time.Now()) == today {
		t.Errorf("one day: %v", days)
	}
	if days := used(other, ""); len(days) != 0 {
		t.Errorf("a key that the node did not prove to hold: %v", days)
	}
	for path, status := range map[string]int{
		key + "/usage?days=0": 400, key + "/usage?days=91": 400, key + "/usage?days=x": 400, "key_no/usage": 404, "key_no": 404,
	} {
		f.must(status, "GET", "/admin/v1/keys/"+path, nil)
	}
	use := f.must(http.StatusOK, "GET", "/admin/v1/keys/"+key, nil)["usage"].(object)
	if last, err := time.Parse(time.RFC3339, fmt.Sprint(use["last_used_at"])); err != nil || now.Sub(last).Abs() > 2*time.Minute ||
		use["requests"] != 38.0 || use["limited"] != 2.0 || use["days"] != 30.0 {
		t.Errorf("the key's use is %v, %v", use, err)
	}
	for _, k := range f.must(http.StatusOK, "GET", "/admin/v1/accounts/"+account+"/keys", nil)["items"].([]any) {
		use := k.(object)["usage"].(object)
		if used := k.(object)["id"] == key; (use["requests"] == 38.0) != used || (use["last_used_at"] != nil) != used {
			t.Errorf("in the list %v", k)
		}
	}
	for _, bad := range []wire.Usage{{Day: today}, {Boot: fmt.Sprintf("%065d", 1)}} {
		if r := ask[wire.Head](one, wire.VerbSpend, wire.Spend{Head: head, Boot: "b", Usage: &bad}); r.Failure != wire.Invalid {
			t.Errorf("%+v gave %+v", bad, r)
		}
	}
}

// TestKeysWithoutUsage has counts in the database whose sum cannot be read: keys are
// shown all the same.
func TestKeysWithoutUsage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	account := f.account("live")
	key, _ := f.limited(account, 100)
	for _, boot := range []string{"b1", "b2"} {
		f.exec(`INSERT INTO key_usage (key_id, day, node_id, boot, requests, limited) VALUES (?, ?, 'n', ?, ?, ?)`,
			key, int64(store.DayOf(time.Now())), boot, math.MaxInt64, math.MaxInt64)
	}
	items := f.must(http.StatusOK, "GET", "/admin/v1/accounts/"+account+"/keys", nil)["items"].([]any)
	if len(items) != 1 || items[0].(object)["id"] != key || items[0].(object)["usage"] != nil {
		t.Errorf("listed are %v", items)
	}
	if shown := f.must(http.StatusOK, "GET", "/admin/v1/keys/"+key, nil); shown["id"] != key || shown["usage"] != nil {
		t.Errorf("shown is %v", shown)
	}
	if !strings.Contains(f.logs.String(), "without what they were used for") {
		t.Error("the log does not tell")
	}
}

// TestUsageOfNoDay has a node whose clock is wrong report ever more of days that are not
// kept or yet to come: each count is refused and counted, the log has one line of it, and
// what it counts of today is believed.
func TestUsageOfNoDay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, _ := f.limited(f.account("live"), 100)
	n := f.enrol("n1")
	refusals(f, n.id, usage.RefusedDay, 0)
	today := store.DayOf(time.Now())
	shares := sharesFor(t, n.conn, n.id)
	for seq, day := range []store.Day{today + 30, today + 2, today - 91, 0, today} {
		report := &wire.Usage{Boot: "c", Day: day, Seq: int64(seq), Keys: map[string]wire.UsageKey{
			key: {Requests: 3, LastUsed: time.Now().Unix(), KeyHash: f.hash(key)},
		}}
		if r := ask[wire.Head](n, wire.VerbSpend, wire.Spend{Head: head, Boot: "b", Usage: report}); r.Failure != "" {
			t.Fatalf("spend: %+v", r)
		}
		// It is confirmed all the same: the node would report it for ever.
		shares(func(s wire.Share) bool { return s.Used != nil && s.Used.Seq == int64(seq) })
	}
	refusals(f, n.id, usage.RefusedDay, 4)
	warned := 0
	for line := range strings.Lines(f.logs.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "node="+n.id) && strings.Contains(line, "reason="+usage.RefusedDay) {
			warned++
		}
	}
	if warned != 1 {
		t.Errorf("%d warnings of %d reports:\n%s", warned, 4, f.logs)
	}
	days := f.must(http.StatusOK, "GET", "/admin/v1/keys/"+key+"/usage", nil)["items"].([]any)
	if want := (object{"day": today.String(), "requests": 3.0, "limited": 0.0}); len(days) != 1 || fmt.Sprint(days[0]) != fmt.Sprint(want) {
		t.Errorf("the key was used %v, want %v", days, want)
	}
}

// TestKeyUsageAtTwoOrigins has two nodes report to two origin processes over one
// PostgreSQL, both of which hear every report: nothing counts twice. One process stops
// while the nodes go on, and nothing that they report is lost.
func TestKeyUsageAtTwoOrigins(t *testing.T) {
	t.Parallel()
	database := centraltest.Postgres(t)
	open := func(c *Config) {
		var err error
		if c.DB, err = central.Open(t.Context(), central.Config{URL: database, Log: c.Log}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.DB.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	first := newFixture(t, open) // makes the keys, and is the first of the two once restarted
	first.stop()
	_, first.config.NATSURL = startCluster(t, filepath.Join(first.config.Dir, "nats"))
	first.start()
	second := &fixture{T: t, config: first.config, logs: first.logs}
	open(&second.config)
	second.start()

	key, _ := first.limited(first.account("live"), 100)
	hash, today := first.hash(key), store.DayOf(time.Now())
	nodes := []*enrolled{first.enrol("a"), second.enrol("b")}
	var shares []func(func(wire.Share) bool)
	for _, n := range nodes {
		shares = append(shares, sharesFor(t, n.conn, n.id))
	}
	seq := int64(0)
	report := func(i int, requests int64) {
		t.Helper()
		seq++
		usage := &wire.Usage{Boot: "c", Day: today, Seq: seq, Keys: map[string]wire.UsageKey{
			key: {Requests: requests, Limited: requests / 10, LastUsed: time.Now().Unix(), KeyHash: hash},
		}}
		if r := ask[wire.Head](nodes[i], wire.VerbSpend, wire.Spend{Head: head, Boot: "b", Usage: usage}); r.Failure != "" {
			t.Fatalf("spend: %+v", r)
		}
	}
	confirmed := func(i, times int) {
		t.Helper()
		of := seq
		shares[i](func(s wire.Share) bool {
			if s.Used != nil && s.Used.Seq == of {
				times--
			}
			return times == 0
		})
	}
	used := func(f *fixture, requests, limited int) {
		t.Helper()
		days := f.must(http.StatusOK, "GET", "/admin/v1/keys/"+key+"/usage", nil)["items"].([]any)
		want := object{"day": today.String(), "requests": float64(requests), "limited": float64(limited)}
		if len(days) != 1 || fmt.Sprint(days[0]) != fmt.Sprint(want) {
			t.Errorf("the key was used %v, want %v", days, want)
		}
	}
	for _, requests := range []int64{10, 50} {
		report(0, requests)
		confirmed(0, 2) // by each of the two
	}
	report(1, 200)
	confirmed(1, 2)
	used(first, 250, 25)
	used(second, 250, 25)

	report(0, 70) // which the first holds only in memory
	first.stop()
	confirmed(0, 1)
	report(1, 300)
	confirmed(1, 1)
	used(second, 370, 37)
	first.start()
	used(first, 370, 37)
	report(0, 70) // a node that has not heard of its confirmation reports once more
	confirmed(0, 2)
	used(first, 370, 37)
}
