package requestlog

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"partneredge/edge/wire"
)

const most = (shards + 1) * PerShard // requests that a Log keeps

func id(n int) string { return fmt.Sprintf("req_%026d", n) }

// kept adds a request of a key, answered at a time.
func kept(l *Log, n int, key string) {
	l.Add(&wire.AnsweredRequest{ID: id(n), At: time.UnixMicro(int64(n)), TookUS: 1000, KeyID: key, AccountID: "acc_" + key, Method: "GET", Route: "/r", Status: 200})
}

func TestFindAndList(t *testing.T) {
	l := New()
	want := wire.AnsweredRequest{ID: id(1), At: time.UnixMicro(7).UTC(), TookUS: 3, KeyID: "k", AccountID: "a", Method: "POST", Route: "/leads", Status: 400, Code: "invalid_lead", Reason: "name_required"}
	l.Add(&want)
	l.Add(&wire.AnsweredRequest{ID: id(2), At: time.UnixMicro(8), Status: 401, Code: "unauthorized", Reason: "unknown_api_key"})
	l.Add(&wire.AnsweredRequest{ID: "of another", KeyID: "k", Status: 200})
	if got, found := l.Find(id(1)); !found || got != want {
		t.Errorf("found %+v, want %+v", got, want)
	}
	if got, found := l.Find(id(2)); !found || got.Reason != "unknown_api_key" || got.KeyID != "" {
		t.Errorf("of no known key: %+v", got)
	}
	if _, found := l.Find(id(3)); found {
		t.Error("found what was not there")
	}
	kept(l, 10, "other")
	for _, tt := range []struct {
		key, account string
		limit, want  int
		first        string
	}{{"k", "", 10, 1, id(1)}, {"", "a", 10, 1, id(1)}, {"k", "acc_other", 10, 0, ""}, {"", "", 10, 3, id(10)}, {"", "", 2, 2, id(10)}, {"none", "", 10, 0, ""}} {
		got := l.List(tt.key, tt.account, tt.limit, every)
		if len(got) != tt.want || tt.want > 0 && got[0].ID != tt.first {
			t.Errorf("of %q, %q: %v, want %d from %s", tt.key, tt.account, got, tt.want, tt.first)
		}
	}
}

// TestBounds: a busy key forgets its own requests and no other's, and many keys push out
// those that are not used.
func TestBounds(t *testing.T) {
	if size := unsafe.Sizeof(record{}); size != 56 {
		t.Errorf("a record has %d bytes, and the package's documentation says 56", size)
	}
	l := New()
	kept(l, 0, "quiet")
	for n := range 3 * PerKey {
		kept(l, 1+n, "busy")
	}
	if got := l.List("busy", "", most, every); len(got) != PerKey || got[0].ID != id(3*PerKey) || got[PerKey-1].ID != id(2*PerKey+1) {
		t.Errorf("%d of the busy key, from %s", len(got), got[0].ID)
	}
	if len(l.List("quiet", "", most, every)) != 1 {
		t.Error("the quiet key's request was pushed out")
	}
	for n := range 2 * PerShard {
		kept(l, 10_000+n, "")
	}
	if got := l.List("", "acc_", most, every); len(got) != PerShard {
		t.Errorf("%d without a known key, want %d", len(got), PerShard)
	}
	if len(l.List("quiet", "", most, every)) != 1 {
		t.Error("the quiet key's request was pushed out by ones without a key")
	}
	for n := range 2 * most {
		kept(l, 100_000+n, fmt.Sprint("key_", n%20_000))
	}
	slots := 0
	for i := range l.shards {
		slots += l.shards[i].slots
	}
	if slots > most {
		t.Errorf("%d places, want %d at most", slots, most)
	}
	if len(l.List("quiet", "", most, every)) != 0 || len(l.List(fmt.Sprint("key_", (2*most-1)%20_000), "", most, every)) == 0 {
		t.Error("the key used the longest ago is kept, or the newest is not")
	}
}

// TestTextsAreBounded: modules may answer with any reason.
func TestTextsAreBounded(t *testing.T) {
	l := New()
	for n := range 2 * textsMost {
		l.Add(&wire.AnsweredRequest{ID: id(n), KeyID: "k", Status: 400, Reason: fmt.Sprint("reason_", n)})
	}
	l.Add(&wire.AnsweredRequest{ID: id(9999), KeyID: "l", Status: 400, Reason: strings.Repeat("x", textMost+1)})
	if got, found := l.Find(id(2*textsMost - 1)); !found || got.Reason != "" {
		t.Errorf("one text too many: %+v", got)
	}
	if got, found := l.Find(id(9999)); !found || got.Reason != "" {
		t.Errorf("a text that is too long: %+v", got)
	}
}

func BenchmarkAdd(b *testing.B) {
	l := New()
	keys := make([]string, 1000)
	for i := range keys {
		keys[i] = fmt.Sprint("key_", i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		e := wire.AnsweredRequest{ID: id(1), At: time.Now(), TookUS: 1000, AccountID: "acc", Method: "GET", Route: "/api/v2/public/agents/me", Status: 200}
		for i := 0; pb.Next(); i++ {
			e.KeyID = keys[i%len(keys)]
			l.Add(&e)
		}
	})
}

func every(*wire.AnsweredRequest) bool { return true }
