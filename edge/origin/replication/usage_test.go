package replication

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"partneredge/edge/logging"
	"partneredge/edge/origin/replication/spending"
	"partneredge/edge/wire"
	"partneredge/store"
)

// TestUsageIsBounded has a node report while nothing is written: nothing is kept of a
// report that is out of bounds, and of the others one confirmation.
func TestUsageIsBounded(t *testing.T) {
	u := &keyUsage{}
	r := &requests{presence: &Presence{}, merge: &spending.Merger{}, usage: u}
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
			counts, ofNode, waiting := maps.Clone(u.counts), maps.Clone(u.ofNode), maps.Clone(u.used)
			u.counts, u.ofNode, u.used = nil, nil, nil
			u.keep(counts, ofNode, waiting)
		}
	}
	if len(u.counts) != 1 || u.ofNode["node_1"] != 1 {
		t.Errorf("%d counts are kept, %d of the node", len(u.counts), u.ofNode["node_1"])
	}
	if c := u.used["node_1"]; len(u.used) != 1 || c.to.Boot != "b99" || c.report.Seq != 99 {
		t.Errorf("to be confirmed are %v", u.used)
	}
}

// TestUsageOfOneNode: a node that makes keys up leaves room for the counts of others, also
// while nothing can be written. It is warned of.
func TestUsageOfOneNode(t *testing.T) {
	var log bytes.Buffer
	u := &keyUsage{}
	r := &requests{presence: &Presence{}, merge: &spending.Merger{}, usage: u, limited: logging.New(slog.New(slog.NewTextHandler(&log, nil)))}
	report := func(node string, n int) error {
		keys := make(map[string]wire.UsageKey)
		for i := range wire.MaxUsageKeys {
			keys[fmt.Sprint("key_", n, "_", i)] = wire.UsageKey{Requests: 1}
		}
		_, err := r.spend(t.Context(), node, wire.Spend{Boot: "b", Usage: &wire.Usage{Boot: "c", Keys: keys}})
		return err
	}
	var err error
	n := 0
	for ; err == nil && n <= maxUsageKept/wire.MaxUsageKeys; n++ {
		if n == 3 { // a write failed, and the counts are kept beside newer ones
			counts, ofNode, waiting := u.counts, u.ofNode, u.used
			u.counts, u.ofNode, u.used = nil, nil, nil
			if err := report("node_1", n); err != nil {
				t.Fatal(err)
			}
			u.keep(counts, ofNode, waiting)
		}
		err = report("node_1", n)
	}
	if !errors.Is(err, store.ErrLimit) || len(u.counts) > maxUsageOfNode {
		t.Errorf("%d counts of one node are kept after %d reports: %v", len(u.counts), n, err)
	}
	r.noteFailure(wire.VerbSpend, "node_1", failureOf(err), err)
	if !strings.Contains(log.String(), "node=node_1") {
		t.Errorf("the log is %q", &log)
	}
	if err := report("node_2", 0); err != nil {
		t.Errorf("another node's report: %v", err)
	}
}
