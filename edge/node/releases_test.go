package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aead.dev/minisign"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"partneredge/edge/release"
	"partneredge/edge/release/releasetest"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/host/compilecache"
	"partneredge/store"
	"partneredge/store/local"
)

// order has the node hear of an order, again and again while its end is waited
// for.
func (o *testOrigin) order(order wire.Order) {
	o.t.Helper()
	order.Head = wire.Head{V: wire.Version}
	body := must(json.Marshal(order))(o.t)
	o.do(func() { o.ordered = body })
}

// told waits until the node has told something of its releases, and returns it.
func (o *testOrigin) told(what string, ok func(running, candidate *wire.ReleaseStatus) bool) (running, candidate *wire.ReleaseStatus) {
	o.t.Helper()
	polls := 0
	eventually(o.t, what, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		if polls++; o.ordered != nil && polls%10 == 1 {
			_ = o.conn.Publish(wire.ToNode+testNode+"."+wire.VerbRelease, o.ordered) // the node may not be there yet
		}
		if o.status == nil || o.status.Running == nil {
			return false
		}
		running, candidate = o.status.Running, o.status.Candidate
		return ok(running, candidate)
	})
	return running, candidate
}

func (o *testOrigin) runs(digest string) {
	o.t.Helper()
	o.told("the node runs "+digest, func(r, c *wire.ReleaseStatus) bool { return r.Digest == digest && c == nil })
}

// trusting is a configuration of a node that runs what by has signed.
func trusting(t *testing.T, o *testOrigin, by operator) Config {
	c := config(t, o)
	c.ReleaseKeys = []minisign.PublicKey{by.public}
	c.Lockout = local.LockoutRules{Failures: 1 << 30}
	return c
}

// TestRunsReleases goes with one node through a release's life: tried beside the
// running one, made the running one, kept over a restart that no origin helps
// with, rolled back.
func TestRunsReleases(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1_000_000 })
	first, second := o.ship("1.0.0", nil, by), o.ship("1.1.0", nil, by)
	c := trusting(t, o, by)
	n := startNode(t, c)
	o.runs("")
	ask(t, n, "GET", me, key, "").want(t, 200)

	o.order(wire.Order{Candidate: first, Percent: 50, Rollout: "rol_1"})
	o.told("a candidate", func(r, c *wire.ReleaseStatus) bool {
		return r.Digest == "" && c != nil && c.Digest == first && c.Version == "1.0.0" && c.State == wire.ReleaseReady && c.Percent == 50
	})
	var running, candidate *wire.ReleaseStatus
	eventually(t, "both answer", func() bool {
		ask(t, n, "GET", me, key, "").want(t, 200)
		running, candidate = n.releases.Status()
		return running.Counts.Requests > 3 && candidate.Counts.Requests > 3
	})
	if running.Counts.Errors+candidate.Counts.Errors != 0 {
		t.Errorf("errors: %+v, %+v", running.Counts, candidate.Counts)
	}
	if got := shares(t, n); !maps.Equal(got, map[string]float64{"own_modules ": 0.5, "rolling_out 1.0.0": 0.5}) {
		t.Errorf("metrics: %v", got)
	}
	o.order(wire.Order{Candidate: first, Percent: 100, Rollout: "rol_1"})
	o.told("all of it", func(_, c *wire.ReleaseStatus) bool { return c != nil && c.Percent == 100 })
	o.order(wire.Order{Run: first})
	o.runs(first)
	o.order(wire.Order{Run: second})
	o.runs(second)
	ask(t, n, "GET", me, key, "").want(t, 200)
	if got := shares(t, n); got["serving 1.1.0"] != 1 {
		t.Errorf("metrics: %v", got)
	}

	stopNode(t, n)
	o.stop()
	n = startNode(t, c)
	if r, _ := n.releases.Status(); r.Digest != second || r.Version != "1.1.0" {
		t.Errorf("after a restart it runs %+v", r)
	}
	ask(t, n, "GET", me, key, "").want(t, 200)
	o.start()
	o.order(wire.Order{})
	o.runs("")
	ask(t, n, "GET", me, key, "").want(t, 200)

	stopNode(t, n)
	o.stop()
	n = startNode(t, c)
	if r, _ := n.releases.Status(); r.Digest != "" {
		t.Errorf("after a rollback to its own modules and a restart it runs %+v", r)
	}
	ask(t, n, "GET", me, key, "").want(t, 200)
}

// shares returns the shares of requests of the releases on a node, by state and version.
func shares(t *testing.T, n *Node) map[string]float64 {
	t.Helper()
	families, err := n.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "edge_node_release" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			all[labels["state"]+" "+labels["version"]] = m.GetGauge().GetValue()
		}
	}
	return all
}

// TestDoesNotTryAgainWhatItDiedOf kills a node while it tries a release: the next
// process refuses the release in the same rollout, and tries it in another. A node
// that is stopped tries it again.
func TestDoesNotTryAgainWhatItDiedOf(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	digest := o.ship("1.0.0", nil, by)
	c := trusting(t, o, by)
	mark := filepath.Join(c.Data, "candidate.json")
	ready := func(rollout string) {
		t.Helper()
		o.order(wire.Order{Candidate: digest, Percent: 10, Rollout: rollout})
		o.told("a candidate of "+rollout, func(_, c *wire.ReleaseStatus) bool {
			return c != nil && c.Rollout == rollout && c.State == wire.ReleaseReady
		})
	}
	n := startNode(t, c)
	ready("rol_1")
	left := must(os.ReadFile(mark))(t)
	stopNode(t, n)
	if _, err := os.Stat(mark); err == nil {
		t.Error("a node that was stopped leaves the mark of a trial")
	}
	o.do(func() { o.status = nil })
	n = startNode(t, c)
	ready("rol_1")
	stopNode(t, n)

	if err := os.WriteFile(mark, left, 0o600); err != nil { // as a killed process leaves it
		t.Fatal(err)
	}
	o.do(func() { o.status = nil })
	n = startNode(t, c)
	_, refused := o.told("it is refused", func(_, c *wire.ReleaseStatus) bool { return c != nil && c.State.Ended() })
	if refused.State != wire.ReleaseRefused || !strings.Contains(refused.Reason, "ended without being stopped while it tried this release") {
		t.Errorf("after its death the node reports %+v", refused)
	}
	ready("rol_2")
	o.order(wire.Order{Run: digest})
	o.runs(digest)
	if _, err := os.Stat(mark); err == nil {
		t.Error("the mark stays when the candidate has become the running release")
	}
	stopNode(t, n)
}

// TestDrainEndsTheTrial: a node that was told to stop may be killed while it drains, which is no
// fault of the release on trial. It begins no other trial.
func TestDrainEndsTheTrial(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	first, second := o.ship("1.0.0", nil, by), o.ship("1.1.0", nil, by)
	c := trusting(t, o, by)
	c.Drain = time.Hour
	n := must(Start(t.Context(), c))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var stop sync.WaitGroup
	defer stop.Wait()
	defer cancel()
	o.order(wire.Order{Candidate: first, Percent: 10, Rollout: "rol_1"})
	o.told("a candidate", func(_, c *wire.ReleaseStatus) bool { return c != nil && c.State == wire.ReleaseReady })
	told := time.Now()
	stop.Go(func() { _ = n.Stop(ctx) })
	eventually(t, "the mark of the trial is gone", func() bool {
		_, err := os.Stat(filepath.Join(c.Data, "candidate.json"))
		return errors.Is(err, os.ErrNotExist)
	})
	if took := time.Since(told); took > 50*time.Second {
		t.Errorf("the mark stays for %v: until the minute of its trial is over", took)
	}
	ask(t, n, "GET", "/healthz", "", "").want(t, 503)
	o.order(wire.Order{Candidate: second, Percent: 10, Rollout: "rol_2"})
	o.told("the candidate is withdrawn", func(_, c *wire.ReleaseStatus) bool { return c == nil || c.Digest == second })
	cancel()
	stop.Wait()
	if _, candidate := n.releases.Status(); candidate != nil {
		t.Errorf("a node that drains goes on to %+v", candidate)
	}
}

// TestPrunesReleases: on a node's disk are the running release, the three that ran
// before it, and the candidate, and no other.
func TestPrunesReleases(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	var digests []string
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"} {
		digests = append(digests, o.ship(version, nil, by))
	}
	c := trusting(t, o, by)
	startNode(t, c)
	for _, tt := range []struct {
		order wire.Order
		want  []string
	}{
		{wire.Order{Run: digests[0]}, []string{"1.0.0"}},
		{wire.Order{Run: digests[1]}, []string{"1.0.0", "1.1.0"}},
		{wire.Order{Run: digests[1], Candidate: digests[2], Percent: 50, Rollout: "rol_1"}, []string{"1.0.0", "1.1.0", "1.2.0"}},
		{wire.Order{Run: digests[2]}, []string{"1.0.0", "1.1.0", "1.2.0"}},
		{wire.Order{Run: digests[3]}, []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"}},
		{wire.Order{Run: digests[0]}, []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"}},
		{wire.Order{Run: digests[0], Candidate: digests[4], Percent: 50, Rollout: "rol_2"}, []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0", "1.4.0"}},
		{wire.Order{Run: digests[4]}, []string{"1.0.0", "1.2.0", "1.3.0", "1.4.0"}},
	} {
		o.order(tt.order)
		o.told(fmt.Sprint("what keeps ", tt.want), func(r, c *wire.ReleaseStatus) bool {
			tried := c != nil && c.Digest == tt.order.Candidate && c.State == wire.ReleaseReady
			return r.Digest == tt.order.Run && (tried || c == nil && tt.order.Candidate == "")
		})
		eventually(t, fmt.Sprint("on disk are ", tt.want), func() bool { return slices.Equal(onDisk(t, c), tt.want) })
	}
}

// TestPrunesCompiledModules: what no release of late had use for leaves a node's disk
// before the cache outgrows its bound, and nothing before that.
func TestPrunesCompiledModules(t *testing.T) {
	t.Parallel()
	for bound, stays := range map[int64]bool{0: true, 1: false} {
		c := config(t, newOrigin(t))
		c.Cache, c.MaxCache = filepath.Join(c.Data, "cache"), bound
		old := filepath.Join(c.Cache, "rewritten", strings.Repeat("a", 64))
		if err := compilecache.WriteFile(old, []byte("of a release of last year")); err != nil {
			t.Fatal(err)
		}
		at := time.Now().AddDate(-1, 0, 0)
		for _, file := range []string{old, old + compilecache.SumSuffix} {
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
		stopNode(t, startNode(t, c))
		if _, err := os.Stat(old); (err == nil) != stays {
			t.Errorf("with a bound of %d it stays: %t (%v)", bound, err == nil, err)
		}
	}
}

// TestModulesStandByForARollback: the release before the running one comes back
// with the modules that it had, its counts begun anew. While a request of its
// first time is under way they are not smoke-tested: that would give it made-up
// capabilities.
func TestModulesStandByForARollback(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1_000_000 })
	first, second := o.ship("1.0.0", nil, by), o.ship("1.1.0", nil, by)
	c := trusting(t, o, by)
	c.ReadTimeout, c.WriteTimeout = 5*time.Minute, 5*time.Minute
	n := startNode(t, c)
	run := func(digest string) {
		t.Helper()
		o.order(wire.Order{Run: digest})
		o.runs(digest)
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	modules := func() map[*host.Module]host.Stats { return n.runtime.Stats() }
	same := func(a, b map[*host.Module]host.Stats) bool {
		return maps.EqualFunc(a, b, func(host.Stats, host.Stats) bool { return true })
	}
	ofOne := len(modules())
	run(first)
	run(second)
	ask(t, n, "GET", me, key, "").want(t, 200)
	both := modules()
	if len(both) != 2*ofOne {
		t.Errorf("%d modules are open, want %d of the running release and as many on standby", len(both), ofOne)
	}
	run(first)
	if !same(modules(), both) {
		t.Error("the modules of the first release were opened again")
	}
	if running, _ := n.releases.Status(); running.Counts.Requests != 1 {
		t.Errorf("the release that came back has answered %d requests, want 1", running.Counts.Requests)
	}
	run(second)
	if !same(modules(), both) {
		t.Error("the modules of the second release were opened again")
	}

	run(first)
	end := begin(t, n, key)
	run(second)
	run(first)
	if same(modules(), both) {
		t.Error("modules with a request under way were smoke-tested")
	}
	if status := end(); status != 201 {
		t.Errorf("the request under way: status %d", status)
	}
	run("")
	run(second)
	eventually(t, "nobody keeps the modules of the node's own disk", func() bool { return len(modules()) == ofOne })
}

// begin sends the first half of a lead, which its handler then waits for. end
// sends the rest.
func begin(t *testing.T, n *Node, key string) (end func() (status int)) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	calls := func() (sum uint64) {
		for _, stats := range n.runtime.Stats() {
			sum += stats.Calls
		}
		return sum
	}
	before := calls()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n{", newLead, key, len(someLead))
	eventually(t, "the gate has answered", func() bool { return calls() > before })
	return func() int {
		fmt.Fprint(conn, someLead[1:])
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
}

// onDisk are the versions of the releases that a node keeps.
func onDisk(t *testing.T, c Config) (versions []string) {
	t.Helper()
	var index ocispec.Index
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(c.Data, "releases", "index.json")))(t), &index); err != nil {
		t.Fatal(err)
	}
	for _, one := range index.Manifests {
		if one.ArtifactType == release.ArtifactType {
			versions = append(versions, one.Annotations[ocispec.AnnotationRefName])
		}
	}
	slices.Sort(versions)
	return versions
}

// A fetch that breaks off goes on where it was: nothing comes twice.
func TestFetchGoesOn(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	digest := o.ship("1.0.0", nil, by)
	startNode(t, trusting(t, o, by))
	asked, seen := 0, map[string]int{}
	o.do(func() {
		o.spoil = func(req *wire.BlobRequest, r *wire.BlobReply) wire.Failure {
			if asked++; asked%20 == 0 {
				return wire.Unavailable
			}
			seen[fmt.Sprint(req.Digest, " at ", req.Offset)]++
			return ""
		}
		o.fail[wire.VerbBlob] = wire.Unavailable
	})
	o.order(wire.Order{Run: digest})
	o.told("it waits", func(_, c *wire.ReleaseStatus) bool {
		return c != nil && c.State == wire.ReleaseFetching && c.Reason != ""
	})
	o.do(func() { delete(o.fail, wire.VerbBlob) })
	o.runs(digest)
	o.do(func() {
		for what, times := range seen {
			if times > 1 {
				t.Errorf("%s was asked for %d times", what, times)
			}
		}
	})
}

// TestWithdrawsWhatTraps: a node withdraws a bad candidate by itself, with the
// origin away, and reports it when the origin is back.
func TestWithdrawsWhatTraps(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1_000_000 })
	digest := o.ship("1.0.0", map[string][]byte{"agents.wasm": releasetest.Trap(t)}, by)
	n := startNode(t, trusting(t, o, by))
	o.runs("")
	ask(t, n, "GET", me, key, "").want(t, 200)
	o.order(wire.Order{Candidate: digest, Percent: 50, Rollout: "rol_1"})
	o.told("a candidate", func(_, c *wire.ReleaseStatus) bool { return c != nil && c.State == wire.ReleaseReady })
	o.stop()
	failed, answered := 0, 0
	eventually(t, "it is withdrawn", func() bool {
		for range 20 { // what is withdrawn depends on how many calls fail, and not on time
			if ask(t, n, "GET", me, key, "").status != 200 {
				failed++
			}
			answered++
		}
		_, c := n.releases.Status()
		return c.State == wire.ReleaseFailed
	})
	for range 50 {
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	t.Logf("withdrawn after %d of %d requests had failed", failed, answered)
	o.start()
	_, c := o.told("it is told", func(_, c *wire.ReleaseStatus) bool { return c != nil && c.State == wire.ReleaseFailed })
	if !strings.Contains(c.Reason, "failed calls") {
		t.Errorf("withdrawn for %q", c.Reason)
	}
}

// TestOutageWithdrawsNothing: a candidate that answers all requests of a node stays while
// the origin is away, although nothing runs beside it that fails as often.
func TestOutageWithdrawsNothing(t *testing.T) {
	t.Parallel()
	o, by := newOrigin(t), newOperator(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1"}
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1_000_000 })
	digest := o.ship("1.0.0", nil, by)
	n := startNode(t, trusting(t, o, by))
	o.runs("")
	for range 200 {
		ask(t, n, "GET", me, key, "").want(t, 200)
	}
	tried := func(percent int) {
		t.Helper()
		o.order(wire.Order{Candidate: digest, Percent: percent, Rollout: "rol_1"})
		_, c := o.told(fmt.Sprint("it has ended or answers ", percent), func(_, c *wire.ReleaseStatus) bool {
			return c != nil && (c.State.Ended() || c.State == wire.ReleaseReady && c.Percent == percent)
		})
		if c.State.Ended() {
			t.Fatalf("withdrawn: %s", c.Reason)
		}
	}
	tried(100)
	o.stop()
	for i := range 50 {
		ask(t, n, "GET", me, plaintext(fmt.Sprint("not held ", i)), "").want(t, 500)
	}
	o.start()
	tried(50) // it was judged before its percentage changed
	if _, c := n.releases.Status(); c.Counts.Errors < 50 || c.Counts.Own().Errors != 0 {
		t.Errorf("%d errors, of them %d of its own", c.Counts.Errors, c.Counts.Own().Errors)
	}
}
