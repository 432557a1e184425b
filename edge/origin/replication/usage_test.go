package replication

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestUsageIsBounded has a node report while nothing is written: nothing is kept of a
// report that is out of bounds, and of the others one confirmation.
func TestUsageIsBounded(t *testing.T) {
	u := &keyUsage{}
	r := &requests{presence: &Presence{}, merge: &merge{}, usage: u}
	used := func(id string) map[string]wire.UsageKey { return map[string]wire.UsageKey{id: {Requests: 1}} }
	report := func(boot string, usage wire.Usage) error {
		_, err := r.spend(t.Context(), "node_1", wire.Spend{Boot: boot, Usage: &usage})
		return err
	}
	long := strings.Repeat("x", 65)
	for name, err := range map[string]error{
		"a long boot":             report(long, wire.Usage{Boot: "c", Keys: used("key_1")}),
		"no boot":                 report("", wire.Usage{Boot: "c", Keys: used("key_1")}),
		"a long boot of counters": report("b", wire.Usage{Boot: long, Keys: used("key_1")}),
		"no boot of counters":     report("b", wire.Usage{Keys: used("key_1")}),
		"no keys":                 report("b", wire.Usage{Boot: "c"}),
		"a long key id":           report("b", wire.Usage{Boot: "c", Keys: used(long)}),
		"no key id":               report("b", wire.Usage{Boot: "c", Keys: used("")}),
		"a long hash":             report("b", wire.Usage{Boot: "c", Keys: map[string]wire.UsageKey{"key_1": {KeyHash: make([]byte, 33)}}}),
	} {
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(u.counts)+len(u.used) > 0 {
		t.Errorf("kept are %v, %v", u.counts, u.used)
	}
	for boot := range 100 {
		if err := report(fmt.Sprint("b", boot), wire.Usage{Boot: "c", Seq: int64(boot), Keys: used("key_1")}); err != nil {
			t.Fatal(err)
		}
		if boot == 50 { // a write failed
			counts, waiting := maps.Clone(u.counts), maps.Clone(u.used)
			u.counts, u.used = nil, nil
			u.keep(counts, waiting)
		}
	}
	if c := u.used["node_1"]; len(u.used) != 1 || c.to.Boot != "b99" || c.report.Seq != 99 {
		t.Errorf("to be confirmed are %v", u.used)
	}
}
