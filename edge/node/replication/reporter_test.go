package replication

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/ratelimit"
)

// TestReportsFit holds that no report is too large for the origin.
func TestReportsFit(t *testing.T) {
	const number = math.MaxInt64
	spend := &wire.Spend{Boot: strings.Repeat("b", wire.MaxBootLength), Keys: make(map[string]wire.SpentKey)}
	for i := range maxReportKeys {
		spend.Keys[fmt.Sprintf("%0*d", wire.MaxKeyIDLength, i)] = wire.SpentKey{KeyHash: make([]byte, 32), Report: ratelimit.Report{
			Limit: number, Spent: number, From: number, Acked: number, Missing: number, Late: true, Owed: number,
		}}
	}
	used := &wire.Spend{Boot: spend.Boot, Usage: &wire.Usage{Boot: spend.Boot, Day: store.DayOf(time.Now()), Seq: number, Keys: make(map[string]wire.UsageKey)}}
	for i := range wire.MaxUsageKeys {
		used.Usage.Keys[fmt.Sprintf("%0*d", wire.MaxKeyIDLength, i)] = wire.UsageKey{
			Requests: number, Limited: number, LastUsed: number, KeyHash: make([]byte, 32),
		}
	}
	for name, m := range map[string]*wire.Spend{"what was spent": spend, "what keys were used for": used} {
		text, err := wire.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if most := wire.MaxBytes(wire.VerbSpend) * 3 / 4; len(text) > most {
			t.Errorf("%s has %d bytes, more than %d", name, len(text), most)
		}
	}
}
