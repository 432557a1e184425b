package webhook

import (
	"strings"
	"testing"
	"time"
)

func TestSchedule(t *testing.T) {
	c := &Config{Store: kindOnly("sqlite"), Guard: NewGuard(GuardConfig{})}
	must(t, c.fill())
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for tries, base := range map[int]time.Duration{1: 5 * time.Second, 2: 30 * time.Second, 3: 180 * time.Second} {
		least, most := base, base
		for range 2000 {
			at, ok := c.next(tries, now, "")
			if !ok {
				t.Fatalf("no try after %d", tries)
			}
			least, most = min(least, at.Sub(now)), max(most, at.Sub(now))
		}
		if least < base*9/10 || most > base*11/10 || least > base*95/100 || most < base*105/100 {
			t.Errorf("after %d tries: %v to %v, want %v +-10 %%", tries, least, most, base)
		}
	}
	if _, ok := c.next(4, now, "1"); ok {
		t.Error("a fifth try")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &Config{Store: kindOnly("sqlite"), Guard: NewGuard(GuardConfig{}), Jitter: -1}
	must(t, c.fill())
	for header, want := range map[string]time.Duration{
		"":                              5 * time.Second,
		"0":                             5 * time.Second,
		"1":                             5 * time.Second, // sooner than its own schedule: no
		"17":                            17 * time.Second,
		" 17 ":                          17 * time.Second,
		"600":                           10 * time.Minute,
		"601":                           10 * time.Minute,
		"99999999999999999999999":       10 * time.Minute,
		"-17":                           5 * time.Second,
		"+17":                           5 * time.Second,
		"17.5":                          5 * time.Second,
		"0x20":                          5 * time.Second,
		"1e3":                           5 * time.Second,
		"soon":                          5 * time.Second,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second,
		"Fri, 02 Jan 2026 03:00:00 GMT": 5 * time.Second,
		"Fri, 02 Jan 2099 03:00:00 GMT": 10 * time.Minute,
		"Fri, 02 Jan 2026":              5 * time.Second,
		"\x00\xff":                      5 * time.Second,
	} {
		at, ok := c.next(1, now, header)
		if !ok || at.Sub(now) != want {
			t.Errorf("%q: %v, want %v", header, at.Sub(now), want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "120", "Fri, 02 Jan 2026 03:04:35 GMT", "-1", strings.Repeat("9", 70)} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if got := parseRetryAfter(header, now); got < 0 {
			t.Errorf("%q: %v", header, got)
		}
	})
}

// kindOnly is a Store that has only a kind.
func kindOnly(kind string) Store { return kindStore{kind: kind} }

type kindStore struct {
	Store
	kind string
}

func (k kindStore) Kind() string { return k.kind }
