package local

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"partneredge/store/durable/durabletest"
)

func TestLockout(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now}
	s := openTest(t, c)
	fail := func(client string) time.Duration {
		t.Helper()
		d, err := s.Lockouts.Failure(client)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i := range 19 {
		if d := fail("192.0.2.7"); d != 0 {
			t.Fatalf("failure %d locks out for %v", i+1, d)
		}
	}
	at.pass(5 * time.Minute) // all 19 are too old now
	for range 19 {
		if fail("192.0.2.7") != 0 {
			t.Fatal("failures of more than 5 minutes ago count")
		}
	}
	if s.Lockouts.Lockout("192.0.2.7") != 0 {
		t.Fatal("locked out before the threshold")
	}
	if d := fail("192.0.2.7"); d != 15*time.Minute {
		t.Fatalf("the 20th failure locks out for %v", d)
	}
	at.pass(time.Minute)
	if d := s.Lockouts.Lockout("::ffff:192.0.2.7"); d != 14*time.Minute {
		t.Errorf("a minute later, mapped into IPv6: %v", d)
	}
	if d := s.Lockouts.Lockout("192.0.2.8"); d != 0 {
		t.Errorf("the neighbour is locked out for %v", d)
	}
	s = reopen(t, s, c)
	if d := s.Lockouts.Lockout("192.0.2.7"); d != 14*time.Minute {
		t.Errorf("after a restart: %v", d)
	}
	at.pass(14 * time.Minute)
	if d := s.Lockouts.Lockout("192.0.2.7"); d != 0 {
		t.Errorf("at its end: %v", d)
	}
	if d := fail("192.0.2.7"); d != 0 {
		t.Errorf("the first failure after a lockout: %v", d)
	}
}

func TestLockoutCountsANetworkOfIPv6(t *testing.T) {
	s := openTest(t, Config{Lockout: LockoutRules{Failures: 3}})
	for i := range 3 {
		if _, err := s.Lockouts.Failure(fmt.Sprintf("2001:db8:1:2::%x", i)); err != nil {
			t.Fatal(err)
		}
	}
	if s.Lockouts.Lockout("2001:db8:1:2:ffff::1") == 0 {
		t.Error("the same /64 is not locked out")
	}
	if s.Lockouts.Lockout("2001:db8:1:3::1") != 0 {
		t.Error("another /64 is locked out")
	}
	if s.Lockouts.Lockout("fe80::1%eth0") != 0 {
		t.Error("an address with a zone is locked out")
	}
}

// TestLongTextsOfNoAddress: of a text that is no address, however long, no more is held than
// what it counts as.
func TestLongTextsOfNoAddress(t *testing.T) {
	s := openTest(t, Config{})
	held := func() (n uint64) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const texts, size = 1000, 96 << 10
	before := held()
	for i := range texts {
		if _, err := s.Lockouts.Failure(fmt.Sprint(i, strings.Repeat(" ", size))); err != nil {
			t.Fatal(err)
		}
	}
	if after := held(); after > before+texts*size/2 {
		t.Errorf("%d texts of %d bytes hold %d", texts, size, after-before)
	}
	if len(s.Lockouts.known) != texts {
		t.Errorf("%d are known, want %d", len(s.Lockouts.known), texts)
	}
}

func TestLockoutsAreBoundedAndSwept(t *testing.T) {
	at := newClock()
	s := openTest(t, Config{Now: at.now, Lockout: LockoutRules{Failures: 2, Addresses: 100}})
	for i := range 1000 {
		for range 2 {
			if _, err := s.Lockouts.Failure(fmt.Sprintf("10.0.%d.%d", i/250, i%250)); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func() (n int) {
		if err := s.limits.each(lockoutPrefix, "", func(string, string) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if len(s.Lockouts.known) != 100 || count() != 100 {
		t.Errorf("%d in memory, %d on disk, want 100", len(s.Lockouts.known), count())
	}
	if s.Lockouts.Lockout("10.0.3.249") == 0 {
		t.Error("the last one is forgotten")
	}
	at.pass(16 * time.Minute)
	if err := s.Lockouts.sweep(); err != nil {
		t.Fatal(err)
	}
	if len(s.Lockouts.known) != 0 || count() != 0 {
		t.Errorf("after the sweep %d in memory, %d on disk", len(s.Lockouts.known), count())
	}
}

// TestLockoutsEndWithoutAWait: however many lockouts are over at once, requests do not wait
// for the file, which they leave in few writes, and one that begins anew meanwhile stays.
func TestLockoutsEndWithoutAWait(t *testing.T) {
	for name, end := range map[string]func(*Store) error{
		"sweep": func(s *Store) error { return s.Lockouts.sweep() },
		"clear": func(s *Store) error { _, err := s.Lockouts.Clear(netip.Prefix{}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			at, dir := newClock(), t.TempDir()
			disk := durabletest.New(t, dir)
			c := Config{Dir: dir, FS: disk, Now: at.now, Lockout: LockoutRules{Failures: 1}}
			s := openTest(t, c)
			lock := func(client string) {
				t.Helper()
				if _, err := s.Lockouts.Failure(client); err != nil {
					t.Fatal(err)
				}
			}
			const addresses = 10 * sweepAtOnce
			lock("192.0.2.1") // the first to go
			for i := range addresses - 1 {
				lock(fmt.Sprintf("10.0.%d.%d", i/250, i%250))
			}
			at.pass(16 * time.Minute)
			lock("198.51.100.1")
			writing, written := make(chan struct{}), make(chan struct{})
			before := disk.Count(durabletest.Write)
			disk.Before(func(op durabletest.Op) error {
				if op.Kind == durabletest.Write && op.Of == before+1 {
					close(writing)
					<-written
				}
				return nil
			})
			ended := make(chan error, 1)
			go func() { ended <- end(s) }()
			<-writing
			answered := make(chan time.Duration, 1)
			go func() { answered <- s.Lockouts.Lockout("10.0.0.1") }()
			select {
			case left := <-answered:
				if left != 0 {
					t.Errorf("a lockout that is over: %v left", left)
				}
			case <-time.After(5 * time.Minute):
				t.Error("a request waits for the file")
			}
			// The address that is being removed fails again.
			again := make(chan error, 1)
			go func() {
				_, err := s.Lockouts.Failure("10.0.2.1")
				again <- err
			}()
			close(written)
			if err := errorsFirst(<-ended, <-again); err != nil {
				t.Fatal(err)
			}
			if writes := disk.Count(durabletest.Write) - before; writes > addresses/sweepAtOnce+2 {
				t.Errorf("%d writes for %d lockouts", writes, addresses)
			}
			if err := s.Lockouts.forget([]string{"10.0.2.1"}); err != nil { // as when it fails just before
				t.Fatal(err)
			}
			if s.Lockouts.Lockout("10.0.2.1") == 0 {
				t.Error("an address that failed anew is not locked out")
			}
			s = reopen(t, s, c)
			if _, all := s.Lockouts.List(netip.Prefix{}, 0); s.Lockouts.Lockout("10.0.2.1") == 0 || all > 2 {
				t.Errorf("after a restart %d are locked out, the one that failed anew among them %t", all, s.Lockouts.Lockout("10.0.2.1") > 0)
			}
		})
	}
}

// TestNobodyLockedOut: it is known without a look at the addresses, whatever has been.
func TestNobodyLockedOut(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now, Lockout: LockoutRules{Failures: 2, Addresses: 3}}
	s := openTest(t, c)
	fail := func(client string, times int) {
		t.Helper()
		for range times {
			if _, err := s.Lockouts.Failure(client); err != nil {
				t.Fatal(err)
			}
		}
	}
	held := func(want int64) {
		t.Helper()
		if n := s.Lockouts.locked.Load(); n != want {
			t.Errorf("%d addresses with a lockout, want %d", n, want)
		}
	}
	fail("192.0.2.1", 1)
	held(0)
	fail("192.0.2.1", 1)
	held(1)
	at.pass(16 * time.Minute) // it is over, and begins anew
	fail("192.0.2.1", 2)
	held(1)
	fail("192.0.2.2", 2)
	s = reopen(t, s, c)
	held(2)
	for _, client := range []string{"192.0.2.3", "192.0.2.4", "192.0.2.5"} { // take the place of both
		fail(client, 1)
	}
	held(0)
	fail("192.0.2.6", 2)
	if _, err := s.Lockouts.Clear(netip.Prefix{}); err != nil {
		t.Fatal(err)
	}
	held(0)
	fail("192.0.2.6", 2)
	at.pass(16 * time.Minute)
	if err := s.Lockouts.sweep(); err != nil {
		t.Fatal(err)
	}
	held(0)
}

// TestLockoutsAreListedAndCleared: by address, by network and all, on disk as well,
// and with the failures that had not led to a lockout yet.
func TestLockoutsAreListedAndCleared(t *testing.T) {
	at := newClock()
	c := Config{Dir: t.TempDir(), Now: at.now, Lockout: LockoutRules{Failures: 2}}
	s := openTest(t, c)
	for _, client := range []string{"192.0.2.7", "192.0.2.9", "198.51.100.1", "2001:db8:1:2::3", "no address"} {
		for range 2 {
			if _, err := s.Lockouts.Failure(client); err != nil {
				t.Fatal(err)
			}
		}
		at.pass(time.Minute)
	}
	if _, err := s.Lockouts.Failure("192.0.2.8"); err != nil { // once
		t.Fatal(err)
	}
	network := netip.MustParsePrefix
	for _, step := range []struct {
		within netip.Prefix
		all    int
		first  string
		clear  bool
	}{
		{netip.Prefix{}, 5, "no address", false},
		{network("192.0.2.0/24"), 2, "192.0.2.9", false},
		{network("192.0.2.8/32"), 0, "", true},
		{network("192.0.2.7/32"), 1, "192.0.2.7", true},
		{network("192.0.2.7/32"), 0, "", true},
		{network("2001:db8:1:2:ffff::/128"), 1, "2001:db8:1:2::/64", true},
		{network("2001:db8::/32"), 0, "", false},
		{netip.Prefix{}, 3, "no address", true},
		{netip.Prefix{}, 0, "", false},
	} {
		list, all := s.Lockouts.List(step.within, 1)
		if all != step.all || len(list) != min(all, 1) || all > 0 && list[0].Address != step.first {
			t.Errorf("of %v: %d, %v", step.within, all, list)
		}
		if !step.clear {
			continue
		}
		if cleared, err := s.Lockouts.Clear(step.within); err != nil || cleared != step.all {
			t.Errorf("cleared %d of %v: %v", cleared, step.within, err)
		}
		s = reopen(t, s, c)
	}
	if d, err := s.Lockouts.Failure("192.0.2.8"); err != nil || d != 0 {
		t.Errorf("a failure after its address was cleared: %v, %v", d, err)
	}
}

func TestNegatives(t *testing.T) {
	at := newClock()
	n := newNegatives(5*time.Second, 3, at.now)
	hash := func(i byte) (h [32]byte) { h[0] = i; return h }
	n.Add(hash(1), n.Epoch())
	if !n.Has(hash(1)) || n.Has(hash(2)) {
		t.Error("what was added")
	}
	at.pass(5 * time.Second)
	if n.Has(hash(1)) {
		t.Error("kept for longer than told")
	}
	for i := byte(2); i < 10; i++ {
		n.Add(hash(i), n.Epoch())
	}
	if len(n.until) != 3 || !n.Has(hash(9)) || n.Has(hash(6)) {
		t.Errorf("%d remembered, want the last 3", len(n.until))
	}
	epoch := n.Epoch()
	n.Clear()
	if n.Has(hash(9)) {
		t.Error("kept after a change")
	}
	n.Add(hash(9), epoch)
	if n.Has(hash(9)) {
		t.Error("an answer from before the change is remembered")
	}
}
