package ratelimit

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"partneredge/wasm/abi"
)

func TestAccountStartsFullAndRefills(t *testing.T) {
	const limit = 100
	var a Account
	for i := range limit {
		if got, _ := a.Take(limit, start); !got.Allowed || got.Remaining != limit-1-i {
			t.Fatalf("take %d: %+v", i, got)
		}
	}
	denied, _ := a.Take(limit, start)
	if want := (abi.Bucket{Limit: limit, ResetMS: 60_000, RetryMS: 600}); denied != want {
		t.Fatalf("over the limit: %+v, want %+v", denied, want)
	}
	if got, _ := a.Take(limit, start+599_999); got.Allowed {
		t.Fatal("a token came a microsecond early")
	}
	if got, _ := a.Take(limit, start+600_000); !got.Allowed || got.Remaining != 0 {
		t.Fatalf("after 600 ms: %+v", got)
	}
}

func TestAccountSurvivesAClockThatJumps(t *testing.T) {
	const limit, year = 60, int64(365 * 24 * 3600 * 1_000_000)
	var a Account
	for range limit {
		a.Take(limit, start)
	}
	if got, _ := a.Take(limit, start-year); got.Allowed {
		t.Fatal("going back gave a token")
	}
	if got, _ := a.Take(limit, start-year+1_000_000); !got.Allowed {
		t.Fatal("after going back, the account does not refill")
	}
	a.Take(limit, start+year) // full again, and no more than full
	if a.Missing != Token {
		t.Fatalf("after a year %d grains are missing, want one token", a.Missing)
	}
}

// A node alone admits exactly what a bucket of unbounded precision admits.
func TestAccountIsExactAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 100_000).Draw(t, "limit")
		now := rapid.Int64Range(0, 1<<51).Draw(t, "start")
		steps := rapid.SliceOfN(rapid.OneOf(
			rapid.Int64Range(0, 3),
			rapid.Int64Range(0, 2*60_000_000/int64(limit)),
			rapid.Int64Range(0, 200_000_000),
		), 1, 300).Draw(t, "steps")

		var a Account
		size := big.NewRat(int64(limit), 1)
		level := new(big.Rat).Set(size)
		rate := big.NewRat(int64(limit), 60_000_000) // tokens a microsecond
		one := big.NewRat(1, 1)
		for i, step := range steps {
			now += step
			level.Add(level, new(big.Rat).Mul(rate, big.NewRat(step, 1)))
			if level.Cmp(size) > 0 {
				level.Set(size)
			}
			want := level.Cmp(one) >= 0
			if want {
				level.Sub(level, one)
			}
			got, _ := a.Take(limit, now)
			if got.Allowed != want {
				t.Fatalf("step %d: allowed %v, want %v at level %v", i, got.Allowed, want, level)
			}
			whole := new(big.Int).Quo(level.Num(), level.Denom()).Int64()
			if int64(got.Remaining) != whole {
				t.Fatalf("step %d: remaining %d, want %d", i, got.Remaining, whole)
			}
			if (got.RetryMS == 0) != got.Allowed {
				t.Fatalf("step %d: retry %d with allowed %v", i, got.RetryMS, got.Allowed)
			}
		}
	})
}

// Waiting as long as told is enough, and a millisecond less is not.
func TestRetryAndResetAreTight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 10_000).Draw(t, "limit")
		a := Account{Bucket: Bucket{Missing: rapid.Int64Range(0, int64(limit)*Token).Draw(t, "missing"), At: start}}
		got, _ := a.Take(limit, start)
		if !got.Allowed {
			early, late := a, a
			if got, _ := early.Take(limit, start+(got.RetryMS-1)*1000); got.Allowed {
				t.Fatal("a token was there before the time told")
			}
			if got, _ := late.Take(limit, start+got.RetryMS*1000); !got.Allowed {
				t.Fatal("no token at the time told")
			}
		}
		full := func(after int64) bool {
			b := a.Bucket
			b.Settle(int64(limit), start+after*1000)
			return b.Missing == 0
		}
		if !full(got.ResetMS) || got.ResetMS > 0 && full(got.ResetMS-1) {
			t.Fatalf("full at another time than told: %+v", got)
		}
	})
}

// Whatever the clock does, however the limit changes and whatever is known of other
// nodes, an account never holds more than its bucket's size, time alone never takes
// from it, and only a whole token admits a request.
func TestAccountBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Account
		for range rapid.IntRange(1, 100).Draw(t, "takes") {
			limit := rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(-5, 2_000_000)).Draw(t, "limit")
			now := rapid.OneOf(rapid.Int64Range(a.At, a.At+90*second), rapid.Int64Range(-1<<60, 1<<60)).Draw(t, "now")
			a.SharedAt = now - rapid.Int64Range(-1, FreshFor).Draw(t, "age of the share")
			a.Nodes = rapid.Int64Range(0, 20).Draw(t, "nodes")
			a.Others = rapid.Int64Range(0, MaxLimit*Token).Draw(t, "others")
			a.PaceIsUnknown = rapid.Bool().Draw(t, "pace is unknown")
			if rapid.Bool().Draw(t, "all is confirmed") {
				a.Acked = a.Spent
			}
			before, settled := a.Missing, a.Bucket
			settled.Settle(clampLimit(int64(limit)), now)
			got, _ := a.Take(limit, now)
			if there := settled.left(clampLimit(int64(limit))); got.Allowed && there < Token {
				t.Fatalf("admitted on %d grains: %+v", there, a)
			}
			if a.Missing < 0 || a.Missing > before+Token {
				t.Fatalf("missing went from %d to %d", before, a.Missing)
			}
			if got.Remaining < 0 || got.ResetMS < 0 || got.RetryMS < 0 {
				t.Fatalf("%+v", got)
			}
		}
	})
}
