package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/scripts/bench/harness"
)

// loadRate is the number of requests a second that each node gets while releases change.
const loadRate = 50

// serves rolls a release out and returns how many seconds it takes from the
// command until it answers every request of every node.
func (b *bench) serves(ctx context.Context, version string, flags ...string) (seconds float64, err error) {
	began := time.Now()
	args := append([]string{"rollout", version, "--pause", "0s"}, flags...)
	if err := b.operate(ctx, args...); err != nil {
		return 0, err
	}
	r, err := b.until(ctx, "it to serve", func(r adminapi.Rollout) bool {
		return r.State != "rolling_out" || r.Serving == len(b.nodes)
	})
	seconds = time.Since(began).Seconds()
	if err == nil && r.Serving != len(b.nodes) {
		err = fmt.Errorf("release %s is %s: %s", version, r.State, r.Reason)
	}
	if err != nil {
		return 0, err
	}
	// The next may begin once this one has ended.
	_, err = b.until(ctx, "its end", func(r adminapi.Rollout) bool { return r.State == "done" })
	return seconds, err
}

// version numbers of releases; none is below the least that nodes run.
const (
	built = "1.0.0" // the modules as they were built
	other = "1.1.0" // all of them with other code
	third = "1.1.1" // and with other code again
)

// cold rolls a release out that no node has compiled a module of.
func (b *bench) cold(ctx context.Context) error {
	modules, err := b.variants(1)
	if err != nil {
		return err
	}
	if err := b.push(ctx, other, b.signer, modules); err != nil {
		return err
	}
	seconds, err := b.serves(ctx, other, "--canary", "0")
	if err != nil {
		return err
	}
	b.Figure("rollout_cold_s", seconds, "s")
	return nil
}

// cached rolls releases out and back whose modules were compiled before: some with
// nothing else to do, as in cold, and then under load, where no request may fail. One
// rollout of two goes by canary there.
func (b *bench) cached(ctx context.Context) error {
	t := rotation{last: other, running: third}
	if err := b.push(ctx, built, b.signer, nil); err != nil {
		return err
	}
	for i, version := range []string{other, third} {
		modules, err := b.variants(uint32(1 + i))
		if err != nil {
			return err
		}
		if err := b.push(ctx, version, b.signer, modules); err != nil {
			return err
		}
	}
	for _, version := range []string{built, other, third} {
		if _, err := b.serves(ctx, version, "--canary", "0"); err != nil {
			return err
		}
	}
	var idle []float64
	for range b.timed {
		seconds, err := b.serves(ctx, t.next(), "--canary", "0")
		if err != nil {
			return err
		}
		idle = append(idle, seconds)
	}
	l := b.load(ctx, loadRate, mixed)
	defer l.end()
	loaded, back, err := b.changes(ctx, &t)
	if err != nil {
		return err
	}
	asked, failed := l.end()
	for _, why := range failed[:min(len(failed), 10)] {
		b.Printf("failed: %s", why)
	}
	b.Printf("from command to serving %.2f s, with nothing else to do %.2f s; rollbacks %.2f s; of %d requests %d failed", loaded, idle, back, asked, len(failed))
	b.Figure("failed_requests", float64(len(failed)), "requests")
	if len(failed) == 0 {
		b.Figure("rollout_cached_s", harness.Median(loaded), "s")
	} else {
		b.Printf("left out: rollout_cached_s: requests failed")
	}
	b.Figure("rollout_cached_idle_s", harness.Median(idle), "s")
	b.Figure("rollback_s", harness.Median(back), "s")
	return nil
}

// rotation picks one of three releases. What is rolled out next is never the one that
// ran last, whose modules nodes keep open: that is what a rollback is for.
type rotation struct{ last, running string }

func (t *rotation) next() string {
	for _, one := range []string{built, other, third} {
		if one != t.last && one != t.running {
			t.last, t.running = t.running, one
			break
		}
	}
	return t.running
}

// changes are the rollouts and rollbacks; it returns how long they took, but for
// rollouts by canary, which wait for requests.
func (b *bench) changes(ctx context.Context, t *rotation) (took, back []float64, err error) {
	for i := range b.rollouts {
		canary := "0"
		if i%4 >= 2 {
			canary = "20"
		}
		seconds, err := b.serves(ctx, t.next(), "--canary", canary)
		if err != nil {
			return nil, nil, err
		}
		if canary == "0" {
			took = append(took, seconds)
		}
		if len(back) < b.rollbacks && (i+1)*b.rollbacks >= (len(back)+1)*b.rollouts {
			began := time.Now()
			if err := b.operate(ctx, "rollback", "--wait"); err != nil {
				return nil, nil, err
			}
			back = append(back, time.Since(began).Seconds())
			t.last, t.running = t.running, t.last
		}
	}
	if len(back) != b.rollbacks {
		return nil, nil, fmt.Errorf("%d rollbacks, want %d", len(back), b.rollbacks)
	}
	return took, back, nil
}

// badRate is the number of requests a second that each node gets while a module traps.
const badRate = 200

// withdrawn rolls a release out, as `edge release rollout` does by default, whose
// module agents traps on one request of twenty, and measures from the first
// request that it may answer until every node is back.
func (b *bench) withdrawn(ctx context.Context) error {
	wasm, err := os.ReadFile(filepath.Join(filepath.Dir(b.edge), "modules-bad", "trap.wasm"))
	if err != nil {
		return err
	}
	const version = "1.2.0"
	if err := b.push(ctx, version, b.signer, map[string][]byte{"agents": wasm}); err != nil {
		return err
	}
	l := b.load(ctx, badRate, agents)
	defer l.end()
	var took []float64
	for range b.bad {
		if err := b.operate(ctx, "rollout", version); err != nil {
			return err
		}
		if _, err := b.until(ctx, "its first stage", func(r adminapi.Rollout) bool {
			return r.State != "rolling_out" || r.Serving > 0
		}); err != nil {
			return err
		}
		began := time.Now()
		r, err := b.until(ctx, "it to be withdrawn", func(r adminapi.Rollout) bool { return r.State == "rolled_back" || r.State == "done" })
		if err != nil {
			return err
		}
		if r.State != "rolled_back" {
			return fmt.Errorf("release %s is %s", version, r.State)
		}
		took = append(took, time.Since(began).Seconds())
		b.Printf("withdrawn: %s", r.Reason)
	}
	asked, failed := l.end()
	b.Printf("%d of %d requests met the bad module; it was gone after %.2f s", len(failed), asked, took)
	b.Figure("bad_module_withdrawn_s", harness.Median(took), "s")
	return nil
}

// start measures from the start of a node's process to its first answer.
func (b *bench) start(ctx context.Context) error {
	n := b.nodes[0]
	var took []float64
	ask := func() bool {
		c, err := dial(n.addr, b.key)
		if err != nil {
			return false
		}
		defer c.close()
		status, err := c.do(agents[0])
		return err == nil && status == agents[0].status
	}
	if !ask() { // the node holds the key from now on
		return fmt.Errorf("the node does not answer")
	}
	for range b.starts {
		if err := n.Stop(); err != nil {
			return err
		}
		began := time.Now()
		// ctx ends with this part; the next ones need the node.
		if err := n.Begin(context.WithoutCancel(ctx), b.edge, append(n.args, "--listen", n.addr)...); err != nil {
			return err
		}
		if err := harness.Poll(ctx, "the node's first answer", func() (bool, error) { return ask(), nil }); err != nil {
			return err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	b.Printf("from a node's start to its first answer %.0f ms", took)
	b.Figure("node_start_ms", harness.Median(took), "ms")
	return nil
}
