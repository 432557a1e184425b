package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partneredge/store/logtest"

	"pgregory.net/rapid"
)

func put(t *testing.T, s *Replica, name, ref, frame string, seq int64) Record {
	t.Helper()
	rec, err := s.Put(name, Record{Ref: ref, Frame: frame, Seq: seq}, s.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func change(t *testing.T, s *Replica, ref string, seq int64, replace func(string) string) bool {
	t.Helper()
	_, concerned, err := s.Change(ref, seq, replace)
	if err != nil {
		t.Fatal(err)
	}
	return concerned
}

func TestChangeMakesARecordStale(t *testing.T) {
	c := Config{Dir: t.TempDir()}
	s := openTest(t, c)
	put(t, s.Keys, "a", "key_a", "one", 5)
	put(t, s.Keys, "b", "key_b", "one", 5)
	if change(t, s.Keys, "key_a", 5, nil) {
		t.Error("a change that the record takes in concerns it")
	}
	if !change(t, s.Keys, "key_a", 6, nil) || change(t, s.Keys, "key_none", 7, nil) {
		t.Error("which record a change concerns")
	}
	s = reopen(t, s, c)
	if rec, _ := s.Keys.Get("a"); !rec.Stale() {
		t.Error("a restart made a stale record current")
	}
	if rec, _ := s.Keys.Get("b"); rec.Stale() {
		t.Error("a record is stale that nothing happened to")
	}
	if rec := put(t, s.Keys, "a", "key_a", "two", 6); rec.Stale() {
		t.Error("the newer copy is stale")
	}
}

// TestStaleSince: a record is stale since the first change or reset after which no current copy came,
// and after a restart, which forgets that, since it was fetched.
func TestStaleSince(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now}
	s := openTest(t, c)
	fetch := func(seq int64) {
		t.Helper()
		if _, err := s.Views.Put("v", Record{Ref: "v", Frame: "frame", Seq: seq, Fetched: at.now()}, s.Views.Epoch()); err != nil {
			t.Fatal(err)
		}
	}
	reset := func() {
		t.Helper()
		if err := s.Reset(10, "his_1", false); err != nil {
			t.Fatal(err)
		}
	}
	revoked := func(string) string { return "revoked" }
	var fetched, since time.Time
	for _, step := range []struct {
		what string
		do   func()
		want *time.Time // nil: not stale
	}{
		{"fetched", func() { fetch(1); fetched = at.now() }, nil},
		{"changed", func() { change(t, s.Views, "v", 3, nil); since = at.now() }, &since},
		{"changed again", func() { change(t, s.Views, "v", 4, nil) }, &since},
		{"an answer that misses the changes", func() { fetch(2); fetched = at.now() }, &since},
		{"reset", reset, &since},
		{"restarted", func() { s = reopen(t, s, c) }, &fetched},
		{"fetched again", func() { fetch(11) }, nil},
		{"reset again", func() { reset(); since = at.now() }, &since},
		{"and once more", reset, &since},
		{"fetched after the resets", func() { fetch(12); fetched = at.now() }, nil},
		{"changed after them", func() { change(t, s.Views, "v", 13, nil); since = at.now() }, &since},
		{"replaced", func() { change(t, s.Views, "v", 14, revoked) }, nil},
		{"changed after that", func() { change(t, s.Views, "v", 15, nil); since = at.now() }, &since},
		{"restarted again", func() { s = reopen(t, s, c) }, &fetched},
	} {
		at.pass(time.Minute)
		step.do()
		rec, held := s.Views.Get("v")
		if !held || rec.Stale() != (step.want != nil) {
			t.Fatalf("%s: held %t, stale %t", step.what, held, rec.Stale())
		}
		if step.want != nil && !rec.StaleSince().Equal(*step.want) {
			t.Errorf("%s: stale since %v, want %v", step.what, rec.StaleSince(), *step.want)
		}
	}
}

// TestDropOfNothingWritesNothing: a record that is not there, as that of a made-up key, is
// dropped without a write; one that is there stays away after a restart.
func TestDropOfNothingWritesNothing(t *testing.T) {
	c := Config{Dir: t.TempDir()}
	s := openTest(t, c)
	put(t, s.Keys, "a", "key_a", "one", 5)
	before := s.hot.logs[0].size
	for i := range 100 {
		if err := s.Keys.Drop(fmt.Sprint("made up ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if after := s.hot.logs[0].size; after != before {
		t.Errorf("the file has grown by %d bytes", after-before)
	}
	if err := s.Keys.Drop("a"); err != nil {
		t.Fatal(err)
	}
	if _, held := reopen(t, s, c).Keys.Get("a"); held {
		t.Error("the record came back")
	}
}

func TestRevokedAtOnce(t *testing.T) {
	s := openTest(t, Config{})
	put(t, s.Keys, "a", "key_a", "good", 5)
	if !change(t, s.Keys, "key_a", 8, func(string) string { return "revoked" }) {
		t.Fatal("not concerned")
	}
	if rec, _ := s.Keys.Get("a"); rec.Frame != "revoked" || rec.Stale() || rec.Seq != 8 {
		t.Errorf("%+v", rec)
	}
	// An answer that was on its way does not bring it back.
	if rec := put(t, s.Keys, "a", "key_a", "good", 7); rec.Frame != "revoked" {
		t.Errorf("an older copy came back: %+v", rec)
	}
}

// A copy that left the origin before a change which arrived before it.
func TestChangeOvertakesTheAnswer(t *testing.T) {
	s := openTest(t, Config{})
	change(t, s.Keys, "key_a", 8, nil)
	if rec := put(t, s.Keys, "a", "key_a", "good", 7); !rec.Stale() {
		t.Error("a copy from before the change is taken for current")
	}
	if rec, held := s.Keys.Get("a"); held {
		t.Errorf("it is held, though nothing would drop it: %+v", rec)
	}
	if rec := put(t, s.Keys, "b", "key_b", "good", 7); rec.Stale() {
		t.Error("a copy of another record is stale")
	}
	// So many changes that the one of interest is no longer remembered.
	for i := range maxRecent + 1 {
		change(t, s.Keys, fmt.Sprintf("key_%d", i), int64(100+i), nil)
	}
	if rec := put(t, s.Keys, "c", "key_c", "good", 99); !rec.Stale() {
		t.Error("a copy is taken for current that may miss a forgotten change")
	}
	if rec := put(t, s.Keys, "d", "key_d", "good", 101+maxRecent); rec.Stale() {
		t.Error("the newest copy is stale")
	}
}

func TestResetDistrustsAll(t *testing.T) {
	c := Config{Dir: t.TempDir()}
	s := openTest(t, c)
	put(t, s.Keys, "a", "key_a", "good", 500)
	put(t, s.Views, "v", "v", "good", 500)
	if err := s.Advance(500, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(400, "his_2", false); err != nil { // an origin that was put back
		t.Fatal(err)
	}
	for range 2 {
		for _, replica := range []*Replica{s.Keys, s.Views} {
			for _, name := range []string{"a", "v"} {
				if rec, ok := replica.Get(name); ok && !rec.Stale() {
					t.Errorf("%s is current after a reset", name)
				}
			}
		}
		if s.Cursor().Seq != 400 {
			t.Errorf("cursor at %d", s.Cursor().Seq)
		}
		s = reopen(t, s, c)
	}
	if rec := put(t, s.Keys, "a", "key_a", "new", 401); rec.Stale() {
		t.Error("a copy from after the reset is stale")
	}
}

// TestResetOvertakesTheAnswer: an answer that was asked for before a reset is not current after
// it, though its number is higher, and takes the place of none that is.
func TestResetOvertakesTheAnswer(t *testing.T) {
	s := openTest(t, Config{})
	epoch := s.Keys.Epoch()
	if err := s.Reset(400, "his_2", false); err != nil { // an origin that was put back
		t.Fatal(err)
	}
	late := func() Record {
		t.Helper()
		rec, err := s.Keys.Put("a", Record{Ref: "key_a", Frame: "late", Seq: 500}, epoch)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	if rec := late(); !rec.Stale() {
		t.Error("a copy that was asked for before the reset is current")
	}
	if rec, held := s.Keys.Get("a"); held && !rec.Stale() {
		t.Error("a copy that was asked for before the reset is held as current")
	}
	put(t, s.Keys, "a", "key_a", "new", 401)
	if rec := late(); rec.Frame != "new" || rec.Stale() {
		t.Errorf("the newer copy is held, and %+v is returned", rec)
	}
	if rec, _ := s.Keys.Get("a"); rec.Frame != "new" || rec.Stale() {
		t.Errorf("a copy that was asked for before the reset took a newer one's place: %+v", rec)
	}
}

func TestReplicaEvictsWhatWasNotUsed(t *testing.T) {
	c := Config{Dir: t.TempDir(), KeyBytes: 100 * (overhead + 200)}
	s := openTest(t, c)
	put(t, s.Keys, "used", "key_used", strings.Repeat("x", 100), 1)
	for i := range 5000 {
		put(t, s.Keys, fmt.Sprintf("n%05d", i), fmt.Sprintf("key_%05d", i), strings.Repeat("x", 100), 1)
		if _, ok := s.Keys.Get("used"); !ok {
			t.Fatalf("the one in use was evicted after %d", i)
		}
	}
	if s.Keys.Bytes() > c.KeyBytes || s.Keys.Len() < 50 {
		t.Fatalf("%d records in %d bytes", s.Keys.Len(), s.Keys.Bytes())
	}
	held := s.Keys.Len()
	s = reopen(t, s, c)
	if s.Keys.Len() != held {
		t.Errorf("%d records after a restart, %d before", s.Keys.Len(), held)
	}
}

func TestFileShrinksWhileInUse(t *testing.T) {
	dir := t.TempDir()
	f := mustFile(t, filepath.Join(dir, "db"))
	defer f.close()
	sealedAs := func(name string) string { return seal(name, putText(newValue(0), strings.Repeat("v", 1<<16))) }
	for i := range 1 + shrinkFrom/(1<<16) {
		name := fmt.Sprintf("k%d", i%7)
		if err := f.set(name, sealedAs(name)); err != nil {
			t.Fatal(err)
		}
	}
	began, stop, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
				if err := f.set("during", seal("during", putInt(newValue(8), int64(i)))); err != nil {
					done <- err
					return
				}
			}
			if i == 0 {
				close(began)
			}
		}
	}()
	var err error
	select {
	case err = <-done:
		done <- err
	case <-began:
		err = f.shrink()
	}
	close(stop)
	if err = errorsFirst(err, <-done); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(f.path); err != nil || info.Size() > shrinkFrom || info.Mode().Perm() != 0o600 {
		t.Errorf("after shrinking: %v, %v", info, err)
	}
	last, err := f.get("during")
	if err != nil || last == "" {
		t.Fatal("lost what was written during the shrink", err)
	}
	if err := f.set("after", sealedAs("after")); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "db") // as a kill would leave it
	if err := os.CopyFS(filepath.Dir(copied), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	log, text := logtest.New()
	got := contents(t, copied, log)
	if len(got) != 9 || got["during"] != last || text.Lines() > 0 {
		t.Errorf("%d records on disk, log: %s", len(got), text)
	}
}

func errorsFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Whatever comes in whatever order, a copy that misses a change that has been
// applied is never served as current.
func TestReplicaNeverServesWhatItKnowsToBeOld(t *testing.T) {
	s := openTest(t, Config{KeyBytes: 4 * (overhead + 100)})
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		known := map[string]int64{} // ref -> last change applied
		seq := int64(run) * 1_000_000
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			ref := fmt.Sprintf("key_%d_%d", run, rapid.IntRange(0, 5).Draw(t, "ref"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				seq++
				if _, _, err := s.Keys.Change(ref, seq, nil); err != nil {
					t.Fatal(err)
				}
				known[ref] = seq
			case 1:
				seq++
				if _, _, err := s.Keys.Change(ref, seq, func(f string) string { return f }); err != nil {
					t.Fatal(err)
				}
				known[ref] = seq
			default:
				at := seq - rapid.Int64Range(0, 10).Draw(t, "late")
				rec, err := s.Keys.Put(ref, Record{Ref: ref, Frame: "f", Seq: at}, s.Keys.Epoch())
				if err != nil {
					t.Fatal(err)
				}
				if !rec.Stale() && rec.Seq < known[ref] {
					t.Fatalf("put of %d answers current, change %d is known", at, known[ref])
				}
			}
			if rec, ok := s.Keys.Get(ref); ok && !rec.Stale() && rec.Seq < known[ref] {
				t.Fatalf("serves %d as current, change %d is known", rec.Seq, known[ref])
			}
		}
	})
}
