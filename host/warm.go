package host

import (
	"fmt"
	"math/rand/v2"
	"time"

	"partneredge/wasm/abi"
)

// warm is the world that a guest sees while its image is made. It is the same
// whenever the same warm begins anew, so a sandbox whose state is not all in
// memory and globals can be made by doing again what made the image.
type warm struct {
	seed    [32]byte
	random  *rand.ChaCha8
	wallNow time.Time
	elapsed time.Duration
}

// afterWarm is more than the time that passes in a warm-up: a guest's
// monotonic clock must not go back when its first request comes.
const afterWarm = 24 * time.Hour

func newWarm(seed [32]byte, now time.Time) *warm {
	return &warm{seed: seed, random: rand.NewChaCha8(seed), wallNow: now, elapsed: time.Second}
}

// clock goes on by a microsecond each time it is looked at, so that a guest
// waiting for a moment to come does not wait for ever.
func (w *warm) clock(realtime bool) uint64 {
	w.elapsed = min(w.elapsed+time.Microsecond, afterWarm)
	if realtime {
		return uint64(w.wallNow.Add(w.elapsed).UnixNano())
	}
	return uint64(w.elapsed)
}

// answer appends a made-up answer to an operation, such that the code of a
// request that succeeds runs. What it says is nobody's.
func (w *warm) answer(op abi.Op, dst []byte) []byte {
	const soon = 4102444800000000 // 2100-01-01
	now := w.wallNow.UnixMicro()
	switch op {
	case abi.OpLockout, abi.OpFailure:
		return appendDuration(dst, 0)
	case abi.OpKey:
		key := abi.Key{ID: "key_warm", AccountID: "acc_warm", Environment: abi.EnvTest,
			Scopes:    abi.AllScopes,
			RateLimit: 100, Expires: soon}
		return key.Append(dst)
	case abi.OpTake:
		bucket := abi.Bucket{Allowed: true, Limit: 100, Remaining: 99, ResetMS: 600}
		return bucket.Append(dst)
	case abi.OpProfile:
		profile := abi.Profile{AgentID: "agt_warm", Email: "warm@example.com", FullName: "Warm Up", Joined: now,
			AccountID: "acc_warm", AccountName: "Warm Up", Mode: "live"}
		return profile.Append(dst)
	case abi.OpInsights:
		list := abi.Insights{History: true}
		for i := range 20 {
			list.Items = append(list.Items, abi.Insight{ID: fmt.Sprint("ins_warm", i), Headline: "Warm up",
				Detail: "Nobody reads this.", Created: now - int64(i)})
		}
		return list.Append(dst)
	case abi.OpFirings:
		list := abi.Firings{More: true}
		for i := range 20 {
			list.Items = append(list.Items, abi.Firing{ID: fmt.Sprint("fir_warm", i), Name: "warm_up",
				Action: "none", Triggered: now - int64(i), Data: []byte(`{"warm":"up"}`)})
		}
		return list.Append(dst)
	case abi.OpRevoke:
		return append(dst, 0)
	case abi.OpLeadOnce:
		return (&abi.Kept{Outcome: abi.New, ID: "lead_warm"}).Append(dst)
	}
	return dst
}
