package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"partneredge/edge/wire"
	"partneredge/store"
)

// TestRefusesReleases: whatever is wrong with a release, the node says what, and
// goes on with what it has.
func TestRefusesReleases(t *testing.T) {
	t.Parallel()
	o, by, thief := newOrigin(t), newOperator(t), newOperator(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1_000_000 })
	built := must(builtModules())(t)
	wrong := must(os.ReadFile(filepath.Join(built, "coaching.wasm")))(t)
	c := trusting(t, o, by)
	c.MinRelease = "1.0.0"
	n := startNode(t, c)
	data := func(change func(*wire.BlobReply)) func(*wire.BlobRequest, *wire.BlobReply) wire.Failure {
		return func(_ *wire.BlobRequest, r *wire.BlobReply) wire.Failure {
			if len(r.Data) > 100_000 { // of a module
				change(r)
			}
			return ""
		}
	}
	for i, tt := range []struct {
		name   string
		digest func() string
		spoil  func(*wire.BlobRequest, *wire.BlobReply) wire.Failure
		reason string
	}{
		{"unsigned", func() string { return o.ship("1.0.0", nil) }, nil, "not signed"},
		{"by a thief", func() string { return o.ship("1.1.0", nil, thief) }, nil, "trusted key"},
		{"downgraded", func() string { return o.ship("0.9.0", nil, by) }, nil, "older than"},
		{"tampered", func() string { return o.ship("1.2.0", nil, by) }, data(func(r *wire.BlobReply) { r.Data[5000] ^= 1 }), "changed after"},
		{"truncated", func() string { return o.ship("1.2.0", nil, by) }, data(func(r *wire.BlobReply) { r.Data = nil }), "cut short"},
		{"unknown", func() string { return "sha256:" + strings.Repeat("0", 64) }, nil, "no such release"},
		{"no digest", func() string { return "../../etc" }, nil, "no SHA-256"},
	} {
		digest := tt.digest()
		o.do(func() { o.spoil = tt.spoil })
		rollout := fmt.Sprint("rol_", i)
		o.order(wire.Order{Candidate: digest, Percent: 100, Rollout: rollout})
		_, candidate := o.told(tt.name+" is refused", func(_, c *wire.ReleaseStatus) bool {
			return c != nil && c.Rollout == rollout && c.State == wire.ReleaseRefused
		})
		if !strings.Contains(candidate.Reason, tt.reason) {
			t.Errorf("%s: reason %q, want %q", tt.name, candidate.Reason, tt.reason)
		}
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	o.do(func() { o.spoil = nil })
	for version, replaced := range map[string]map[string][]byte{
		"2.0.0": {"agents.wasm": append([]byte("\x00asm\x01\x00\x00\x00"), 0xff)}, // no module
		"2.1.0": {"agents.wasm": wrong},                                           // answers for another path
		"2.2.0": {"agents.json": []byte(`{"name":"agents","capabilities":[]}`)},   // is not granted what it needs
	} {
		digest := o.ship(version, replaced, by)
		o.order(wire.Order{Candidate: digest, Percent: 100, Rollout: "smoke " + version})
		_, candidate := o.told("it is refused", func(_, c *wire.ReleaseStatus) bool {
			return c != nil && c.Digest == digest && c.State == wire.ReleaseRefused
		})
		if version != "2.0.0" && !strings.Contains(candidate.Reason, "smoke test") {
			t.Errorf("refused for %q", candidate.Reason)
		}
	}
	if r, _ := n.releases.Status(); r.Digest != "" || r.Counts.Errors != 0 {
		t.Errorf("the node runs %+v", r)
	}
}

// TestOutOfServiceWithoutItsRelease has a node refuse, after a start, the release that ran
// before it, as a later program may. It is out of service, also while no origin is there,
// until it runs what is ordered: another release, or what it runs already.
func TestOutOfServiceWithoutItsRelease(t *testing.T) {
	t.Parallel()
	for name, ordered := range map[string]func(before, next string) string{
		"the one before": func(before, _ string) string { return before },
		"another":        func(_, next string) string { return next },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, by := newOrigin(t), newOperator(t)
			o.accounts["acc_1"] = store.Account{ID: "acc_1"}
			key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1_000_000 })
			before, next := o.ship("1.0.0", nil, by), o.ship("1.2.0", nil, by)
			ran := o.ship("1.1.0", map[string][]byte{"agents.json": []byte(`{"name":"agents","capabilities":[]}`)}, by)
			c := trusting(t, o, by)
			n := startNode(t, c)
			o.order(wire.Order{Run: before})
			o.runs(before)
			ask(t, n, "GET", me, key, "").want(t, 200)
			o.order(wire.Order{Run: before, Candidate: ran, Percent: 1, Rollout: "rol_1"})
			o.told("it has fetched the other", func(_, c *wire.ReleaseStatus) bool { return c != nil && c.Digest == ran && c.State.Ended() })
			stopNode(t, n)
			kept := fmt.Sprintf(`{"digest": %q, "version": "1.1.0", "before": %q}`, ran, before)
			if err := os.WriteFile(filepath.Join(c.Data, "release.json"), []byte(kept), 0o600); err != nil {
				t.Fatal(err)
			}

			o.stop()
			n = startNode(t, c)
			running, refused := n.releases.Status()
			if running.Digest != before || refused == nil || refused.Digest != ran || refused.State != wire.ReleaseRefused || !strings.Contains(refused.Reason, "smoke test") {
				t.Errorf("it runs %+v and has refused %+v", running, refused)
			}
			out := func() {
				t.Helper()
				if status := readiness(t, n); status != 503 {
					t.Errorf("/readyz is %d", status)
				}
				ask(t, n, "GET", healthPath, "", "").want(t, 503)
				if got := operatorsPage(t, n, "/metrics"); !strings.Contains(got, "\nedge_node_in_service 0\n") {
					t.Errorf("its metrics say that it is in service:\n%s", got)
				}
				ask(t, n, "GET", me, key, "").want(t, 200)
			}
			out()
			o.do(func() { o.status, o.ordered = nil, nil })
			o.start()
			o.order(wire.Order{Run: ran, Rollout: "rol_1"})
			o.told("it is refused again", func(_, c *wire.ReleaseStatus) bool {
				return c != nil && c.Rollout == "rol_1" && c.State == wire.ReleaseRefused
			})
			out()
			o.order(wire.Order{Run: ordered(before, next)})
			o.runs(ordered(before, next))
			eventually(t, "it is in service", func() bool { return readiness(t, n) == 200 })
			ask(t, n, "GET", healthPath, "", "").want(t, 200)
		})
	}
}

// Without keys of its own a node runs what lies on its disk, and nothing else.
func TestTrustsNobodyByDefault(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	n := startNode(t, config(t, o))
	o.order(wire.Order{Run: o.ship("1.0.0", nil, by)})
	o.told("it is refused", func(r, c *wire.ReleaseStatus) bool {
		return r.Digest == "" && c != nil && c.State == wire.ReleaseRefused && strings.Contains(c.Reason, "trusts no release key")
	})
	if _, told := shares(t, n)["refused "]; !told { // of which the alert EdgeReleaseRefused tells
		t.Errorf("metrics of releases are %v", shares(t, n))
	}
}

// TestDamagedReleases: what a node finds damaged it says and sets aside, and it
// starts with what is left.
func TestDamagedReleases(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	digest := o.ship("1.0.0", nil, by)
	c := trusting(t, o, by)
	n := startNode(t, c)
	o.order(wire.Order{Run: digest})
	o.runs(digest)
	blobs := must(filepath.Glob(filepath.Join(c.Data, "releases", "blobs", "sha256", "*")))(t)
	for name, damage := range map[string]func(){
		"its parts": func() {
			for _, file := range blobs {
				if err := os.Truncate(file, 100); err != nil {
					t.Fatal(err)
				}
			}
		},
		"what names it": func() {
			if err := os.WriteFile(filepath.Join(c.Data, "release.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		stopNode(t, n)
		damage()
		o.do(func() { o.fail[wire.VerbBlob] = wire.Internal }) // nobody helps
		n = startNode(t, c)
		if r, _ := n.releases.Status(); r.Digest != "" {
			t.Errorf("%s: it runs %s", name, r.Digest)
		}
		o.do(func() {
			delete(o.fail, wire.VerbBlob)
			o.status = nil
		})
		o.order(wire.Order{Run: digest}) // mended from the origin
		o.runs(digest)
	}
}
