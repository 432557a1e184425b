package attempts

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

func TestLimit(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New(3, func() time.Time { return now })
	guesser, neighbour, other := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("192.0.2.1")
	good, guess := [32]byte{1}, [32]byte{2}
	l.Right(neighbour, good)
	for i, want := range []int{1, 0, 0} {
		if l.Wait(guesser, guess) != 0 {
			t.Fatalf("guess %d is not looked at", i)
		}
		if got := l.Wrong(guesser); got != want {
			t.Errorf("guess %d reports %d, want %d", i, got, want)
		}
	}
	for range 3 { // looking does not spend
		if wait := l.Wait(neighbour, guess); wait != every {
			t.Errorf("beyond the burst it waits for %v", wait)
		}
	}
	if l.Wait(guesser, good) != 0 || !l.WasRight(guesser, good) {
		t.Error("a token that was right before waits")
	}
	if l.WasRight(other, good) || l.WasRight(guesser, guess) {
		t.Error("a token counts as right elsewhere, or though it never was")
	}
	if l.Wait(other, guess) != 0 {
		t.Error("another network waits")
	}
	now = now.Add(every)
	if l.Wait(guesser, guess) != 0 {
		t.Error("it waits for longer than was said")
	}
	l.Wrong(guesser)
	now = now.Add(time.Minute)
	if got := l.Wrong(guesser); got != 4 {
		t.Errorf("a minute later %d are reported, want 4", got)
	}
}

// TestReportsAreBounded: guesses from a /48 fill no log, and each is reported once.
func TestReportsAreBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New(3, func() time.Time { return now })
	const minutes, guesses = 10, 2 * maxNetworks
	loud := netip.MustParseAddr("192.0.2.1")
	rows, tokens := 0, 0
	for minute := range minutes {
		for i := range guesses {
			for _, client := range []netip.Addr{netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", (minute*guesses+i)%(1<<16))), loud} {
				if report := l.Wrong(client); report > 0 {
					rows, tokens = rows+1, tokens+report
				}
			}
			now = now.Add(ReportEvery / guesses)
		}
		named, others := l.Reports()
		for _, one := range named {
			rows, tokens = rows+1, tokens+one.Tokens
		}
		if rows, tokens = rows+1, tokens+others; others == 0 {
			t.Errorf("minute %d has no others", minute)
		}
	}
	if most := maxReports*(minutes+1) + minutes; rows > most {
		t.Errorf("%d rows in %d minutes, want at most %d", rows, minutes, most)
	}
	if want := 2 * guesses * minutes; tokens != want {
		t.Errorf("%d wrong tokens are reported of %d", tokens, want)
	}
	if named, others := l.Reports(); len(named) != 0 || others != 0 {
		t.Errorf("reported again: %v and %d", named, others)
	}
}

// TestReportsNameWhoGuesses: a network that guesses on is named with all its guesses,
// though no further one comes.
func TestReportsNameWhoGuesses(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New(3, func() time.Time { return now })
	first, last := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	if got := l.Wrong(first); got != 1 {
		t.Errorf("the first guess reports %d", got)
	}
	for range 6 {
		l.Wrong(last)
	}
	now = now.Add(ReportEvery)
	named, others := l.Reports()
	if len(named) != 1 || named[0] != (Report{last, 6}) || others != 0 {
		t.Errorf("reported %v and %d others, want 6 of %v", named, others, last)
	}
}

// TestLimitIsBounded: from very many networks, guesses count as those of one, and
// networks that are quiet are forgotten.
func TestLimitIsBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New(3, func() time.Time { return now })
	from := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x::1", i)) }
	for i := range 2*maxNetworks + 10 {
		l.Wrong(from(i))
		l.Right(from(i), [32]byte{byte(i), byte(i >> 8)})
	}
	if len(l.networks) > 2*maxNetworks || len(l.right) > maxRight {
		t.Errorf("%d networks and %d tokens are remembered", len(l.networks), len(l.right))
	}
	if l.Wait(from(3*maxNetworks), [32]byte{9}) == 0 {
		t.Error("one more network is looked at")
	}
	now = now.Add(time.Hour)
	if l.Wait(from(3*maxNetworks), [32]byte{9}) != 0 || len(l.networks) > 1 {
		t.Errorf("an hour later there are %d networks", len(l.networks))
	}
}

// TestGuesserOfManyNetworks: whoever guesses from more networks than are told apart, all of one
// /48, is slowed down in all of it, and keeps nobody else out.
func TestGuesserOfManyNetworks(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New(3, func() time.Time { return now })
	token := [32]byte{1}
	from := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i)) }
	for i := range maxNetworks + 3 {
		l.Wrong(from(i))
	}
	if l.Wait(from(maxNetworks+3), token) == 0 {
		t.Error("one more of the guesser's networks is looked at")
	}
	for _, other := range []string{"2001:db8:1::1", "2001:db8:2::1", "192.0.2.1", "198.51.100.1"} {
		if wait := l.Wait(netip.MustParseAddr(other), token); wait != 0 {
			t.Errorf("%s is kept out for %v", other, wait)
		}
	}
}
