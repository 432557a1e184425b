package node

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/wire"
	"partneredge/store/logtest"
)

// TestWhatARestartRuns starts a node with each content that the file of the running release
// may have, and with the origin away. "lost" is a release that is not on the node's disk.
func TestWhatARestartRuns(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	digests := map[string]string{"own": "", "first": o.ship("1.0.0", nil, by), "second": o.ship("1.1.0", nil, by), "lost": "sha256:" + strings.Repeat("0", 64)}
	c := trusting(t, o, by)
	n := startNode(t, c)
	for _, one := range []string{"first", "second"} { // which are on its disk from then on
		o.order(wire.Order{Run: digests[one]})
		o.runs(digests[one])
	}
	stopNode(t, n)
	kept := func(digest, before string) string {
		return fmt.Sprintf(`{"digest": %q, "version": "1.0.0", "before": %q}`, digests[digest], digests[before])
	}
	start := func(what, file, want string) *Node {
		t.Helper()
		path := filepath.Join(c.Data, "release.json")
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if file != "" {
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		n := startNode(t, c)
		if r, _ := n.releases.Status(); r.Digest != digests[want] {
			t.Errorf("%s: it runs %q, not %s", what, r.Digest, want)
		}
		return n
	}
	o.do(func() { o.ordered, o.fail[wire.VerbBlob] = nil, wire.Internal })
	for _, tt := range []struct{ what, file, want string }{
		{"none", "", "own"},
		{"damaged", "{", "own"},
		{"own after a release", kept("own", "second"), "own"},
		{"a release after another", kept("second", "first"), "second"},
		{"a release after own", kept("second", "own"), "second"},
		{"one that is lost after another", kept("lost", "first"), "first"},
		{"one that is lost after own", kept("lost", "own"), "own"},
	} {
		stopNode(t, start(tt.what, tt.file, tt.want))
	}

	// The release that ran cannot be read, and the origin orders the node's own modules: they
	// run after the next start too, whatever can be read then.
	for _, before := range []string{"second", "own"} {
		n = start("one that is lost", kept("lost", before), before)
		o.do(func() { o.status = nil })
		o.order(wire.Order{})
		var file []byte
		o.told("its own modules are written down", func(r, _ *wire.ReleaseStatus) bool {
			file, _ = os.ReadFile(filepath.Join(c.Data, "release.json"))
			return r.Digest == "" && strings.Contains(string(file), `"digest": ""`)
		})
		stopNode(t, n)
		o.do(func() { o.ordered = nil })
		n = start("own modules that were ordered", strings.ReplaceAll(string(file), digests["lost"], digests["first"]), "own")
		stopNode(t, n)
	}
}

// TestNoRestartRunsWhatWasRolledBack goes back from a release to one that cannot be opened: at
// once, and at a later start. The node then starts with the origin away, and says what it runs and
// why.
func TestNoRestartRunsWhatWasRolledBack(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	first, second, lost := o.ship("1.0.0", nil, by), o.ship("1.1.0", nil, by), "sha256:"+strings.Repeat("0", 64)
	c, logs := trusting(t, o, by), new(logtest.Buffer)
	c.Log = slog.New(slog.NewTextHandler(logs, nil))
	n := startNode(t, c)
	order := func(order wire.Order) {
		t.Helper()
		o.do(func() { o.status = nil })
		o.order(order)
		o.runs(order.Run)
	}
	restart := func(what, want string, says ...string) {
		t.Helper()
		stopNode(t, n)
		o.do(func() { o.ordered, o.fail[wire.VerbBlob] = nil, wire.Internal })
		before := len(logs.String())
		n = startNode(t, c)
		o.do(func() { delete(o.fail, wire.VerbBlob) })
		if r, _ := n.releases.Status(); r.Digest != want {
			t.Errorf("%s: a restart runs %q, not %q", what, r.Digest, want)
		}
		for _, text := range says {
			if said := logs.String()[before:]; !strings.Contains(said, text) {
				t.Errorf("%s: %q is not in what the node says:\n%s", what, text, said)
			}
		}
	}
	order(wire.Order{Run: first})
	order(wire.Order{Run: second})
	o.order(wire.Order{Run: lost, Rollout: "rol_1", RolledBack: second})
	o.told("the release before is refused", func(r, c *wire.ReleaseStatus) bool {
		return r.Digest == second && c != nil && c.Digest == lost && c.State == wire.ReleaseRefused
	})
	restart("the release before never ran here", first, "does not run: it was rolled back\" digest="+second, "release runs\" digest="+first)

	order(wire.Order{Run: second, Rollout: "rol_2"})
	restart("the one that was rolled back is ordered again", second)

	order(wire.Order{Run: first, Rollout: "rol_2", RolledBack: second})
	c.MinRelease = "1.1.0" // by which the first is refused
	restart("the release before does not run any more", "", "release cannot run\" digest="+first, "older than",
		"does not run: it was rolled back\" digest="+second, "own disk run")
}
