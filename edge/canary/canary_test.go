package canary_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"partneredge/edge/canary"
	"partneredge/edge/wire"
)

// counts returns the counts of requests that all fall into one latency bucket, of
// which failed ones are both errors and traps.
func counts(requests, failed uint64, bucket int) wire.ReleaseCounts {
	c := wire.ReleaseCounts{Traffic: wire.Traffic{Requests: requests, Errors: failed, Latency: make([]uint64, wire.LatencyBuckets)}}
	c.Latency[bucket] = requests
	if failed > 0 {
		c.Failures = map[string]uint64{"trap": failed}
	}
	return c
}

func TestJudge(t *testing.T) {
	slow := counts(1000, 0, 6)
	slow.Latency[6], slow.Latency[14] = 800, 200
	errors := counts(1000, 0, 6)
	errors.Errors = 40
	away := counts(1000, 0, 6)
	away.Errors, away.Outside = 40, 40
	mostlyAway := counts(1000, 0, 6)
	mostlyAway.Errors, mostlyAway.Outside = 60, 40
	tests := []struct {
		name                      string
		candidate, beside, before wire.ReleaseCounts
		why                       string // its beginning; "" for none
	}{
		{"nothing yet", counts(0, 0, 6), counts(0, 0, 6), counts(0, 0, 6), ""},
		{"equally good", counts(100, 0, 6), counts(900, 0, 6), counts(0, 0, 6), ""},
		{"equally bad", counts(100, 10, 6), counts(900, 90, 6), counts(0, 0, 6), ""},
		{"one in twenty traps", counts(200, 10, 6), counts(1800, 0, 6), counts(0, 0, 6), "failed calls: 10 of 200"},
		{"a few happen to the best", counts(40, 4, 6), counts(1800, 0, 6), counts(0, 0, 6), ""},
		{"errors that are no traps", errors, counts(1000, 0, 6), counts(0, 0, 6), "errors: 40 of 1000"},
		{"sure but small", counts(1_000_000, 1300, 6), counts(1_000_000, 1000, 6), counts(0, 0, 6), ""},
		{"alone, known before", counts(200, 10, 6), counts(0, 0, 6), counts(5000, 2, 6), "failed calls"},
		{"alone, as before", counts(200, 10, 6), counts(0, 0, 6), counts(5000, 250, 6), ""},
		{"alone, unknown, bad", counts(400, 20, 6), counts(0, 0, 6), counts(0, 0, 6), "failed calls"},
		{"alone, unknown, well", counts(4000, 20, 6), counts(0, 0, 6), counts(0, 0, 6), ""},
		{"better than before", counts(200, 0, 6), counts(1000, 500, 6), counts(0, 0, 6), ""},
		{"slow in the tail", slow, counts(1000, 0, 6), counts(0, 0, 6), "requests slower than 6.4ms: 200 of 1000"},
		{"twice nothing", counts(1000, 0, 11), counts(1000, 0, 2), counts(0, 0, 6), ""},
		{"a little slower", counts(1000, 0, 8), counts(1000, 0, 6), counts(0, 0, 6), ""},
		{"slow, but nothing beside it", counts(1000, 0, 12), counts(10, 0, 6), counts(5000, 0, 6), ""},
		{"alone, errors of its own", errors, counts(0, 0, 6), counts(10_000, 0, 6), "errors: 40 of 1000"},
		{"alone, the origin away", away, counts(0, 0, 6), counts(10_000, 0, 6), ""},
		{"alone, the origin away before", errors, counts(0, 0, 6), away, "errors: 40 of 1000 requests, against 0 of 1000"},
		{"alone, the origin away, and errors of its own", mostlyAway, counts(0, 0, 6), counts(10_000, 0, 6), "errors: 20 of 1000"},
		{"the origin away for it alone", away, counts(1000, 0, 6), counts(0, 0, 6), "errors: 40 of 1000"},
		{"as slow as can be", counts(1000, 0, wire.LatencyBuckets-1), counts(1000, 0, wire.LatencyBuckets-2), counts(0, 0, 6), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			why := canary.Judge(tt.candidate, tt.beside, tt.before)
			if tt.why == "" && why != "" || !strings.HasPrefix(why, tt.why) {
				t.Errorf("%q, want %q", why, tt.why)
			}
		})
	}
}

// TestEquallyGoodStays checks that a candidate which fails as often as the old
// release is hardly ever withdrawn, although it is judged after every request.
func TestEquallyGoodStays(t *testing.T) {
	withdrawn, runs := 0, 400
	for seed := range runs {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		rate, share := random.Float64()*0.2, 0.05+0.9*random.Float64()
		var candidate, beside wire.ReleaseCounts
		for range 3000 {
			one := &beside
			if random.Float64() < share {
				one = &candidate
			}
			one.Requests++
			if random.Float64() < rate {
				one.Errors++
			}
			if canary.Judge(candidate, beside, wire.ReleaseCounts{}) != "" {
				withdrawn++
				break
			}
		}
	}
	if withdrawn > runs/50 {
		t.Errorf("%d of %d were withdrawn", withdrawn, runs)
	}
}

// TestWorseIsFound checks that a candidate which fails in one of twenty requests is
// withdrawn within 400 requests, if the old release has answered as many.
func TestWorseIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(400, 100_000).Draw(t, "requests")
		of := rapid.Uint64Range(n, 20*n).Draw(t, "beside")
		if canary.Judge(counts(n, n/20, 6), counts(of, 0, 6), wire.ReleaseCounts{}) == "" {
			t.Fatalf("%d of %d stays beside 0 of %d", n/20, n, of)
		}
	})
}
