package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"aead.dev/minisign"
	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/release"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/host/engine"
	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
)

// settling is an engine that takes for ever to settle.
type settling struct {
	engine.Engine
	began chan struct{}
}

func (settling) Name() string { return "settling" }

func (s settling) Settle(ctx context.Context) {
	s.began <- struct{}{}
	<-ctx.Done()
}

func (settling) Close(context.Context) error { return nil }

// TestRunEnds holds that a node which is stopped does not wait until machine code is
// written: neither that of its start nor that of a release.
func TestRunEnds(t *testing.T) {
	e := settling{began: make(chan struct{})}
	runtime, err := host.New(t.Context(), host.Config{Engine: func(context.Context, engine.Config) (engine.Engine, error) { return e, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close(context.Background())
	running, opens := plainDeployment(t, "running"), plainDeployment(t, "opened")
	c := &Controller{
		cfg: Config{Runtime: runtime}, router: newRouter(running), store: &releaseStore{kept: keptRelease{Digest: running.digest}}, log: slog.New(slog.DiscardHandler),
		orders: make(chan *nats.Msg), opened: make(chan opened), order: &wire.Order{Run: running.digest},
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(ctx)
	}()
	<-e.began
	c.opened <- opened{&opening{digest: opens.digest, cancel: func() {}}, opens, nil}
	<-e.began
	stop()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("Run goes on")
	}
}

// TestStoppingOpensNoCandidate holds that a candidate which is being opened when the node is
// stopped gets no request, even if it was opened by then.
func TestStoppingOpensNoCandidate(t *testing.T) {
	running, opens := plainDeployment(t, "running"), plainDeployment(t, "opened")
	cancelled := make(chan struct{})
	open := &opening{digest: opens.digest, rollout: "rol_1", candidate: true, cancel: sync.OnceFunc(func() { close(cancelled) })}
	runtime, err := host.New(t.Context(), host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close(context.Background())
	mark := filepath.Join(t.TempDir(), "candidate.json")
	c := &Controller{
		cfg: Config{Runtime: runtime, Changed: func() {}}, router: newRouter(running), log: slog.New(slog.DiscardHandler),
		store:  &releaseStore{kept: keptRelease{Digest: running.digest}, trials: openTrials(durable.Disk{}, mark, slog.New(slog.DiscardHandler))},
		opened: make(chan opened), stopping: make(chan struct{}), opening: open,
		order: &wire.Order{Run: running.digest, Candidate: opens.digest, Rollout: "rol_1"},
	}
	if err := c.beginTrial(open); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	defer runs.Wait()
	defer stop()
	runs.Go(func() { c.Run(ctx) })
	c.Stopping()
	<-cancelled
	c.opened <- opened{open, opens, nil}
	<-opens.closed
	stop()
	runs.Wait()
	if c.router.routes.Load().candidate != nil {
		t.Error("the candidate gets requests")
	}
	if _, err := os.Stat(mark); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark of its trial: %v", err)
	}
}

// TestCancelledOpeningRefusesNothing: what a release is refused for once its opening was cancelled
// is no refusal, which would roll it back everywhere.
func TestCancelledOpeningRefusesNothing(t *testing.T) {
	c := &Controller{
		cfg: Config{Changed: func() {}}, store: &releaseStore{}, log: slog.New(slog.DiscardHandler), // trusts no key, so it refuses all
		opened: make(chan opened), order: &wire.Order{Run: "sha256:other"},
	}
	for _, cancelled := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		if cancelled {
			cancel()
		}
		c.startOpening(ctx, "sha256:candidate")
		if done := <-c.opened; done.err == nil || errors.Is(done.err, context.Canceled) != cancelled {
			t.Errorf("cancelled: %t, the opening ends with %v", cancelled, done.err)
		}
		cancel()
	}
}

// TestRefusedReleases holds that a settled release which a node refused is tried again,
// since nobody would order it anew, and that a candidate is not, unless another rollout
// brings it.
func TestRefusedReleases(t *testing.T) {
	const settled, candidate = "sha256:settled", "sha256:candidate"
	synctest.Test(t, func(t *testing.T) {
		running := plainDeployment(t, "running")
		c := &Controller{
			cfg: Config{Changed: func() {}}, router: newRouter(running), store: &releaseStore{kept: keptRelease{Digest: running.digest}}, log: slog.New(slog.DiscardHandler), // trusts no key, so it refuses all
			opened: make(chan opened), refused: backoff.New(refusedFirst, refusedMost),
		}
		// tries reports whether the next step opens digest, which is refused then.
		tries := func(digest string) bool {
			t.Helper()
			c.step(t.Context())
			if c.opening == nil {
				return false
			}
			if c.opening.digest != digest {
				t.Fatalf("opens %s, not %s", c.opening.digest, digest)
			}
			c.finish(<-c.opened)
			if s := c.candidateStatus(); s.State != wire.ReleaseRefused || s.Reason != errNoKeys.Error() {
				t.Fatalf("status %+v", s)
			}
			return true
		}
		for _, most := range []time.Duration{1, 2, 4, 8, 16, 16} {
			most *= time.Minute
			c.obey(wire.Order{Run: settled}) // as the origin repeats it
			if !tries(settled) {
				t.Fatal("a settled release that was refused is not tried again")
			}
			time.Sleep(most/2 - 1)
			if tries(settled) {
				t.Fatalf("a settled release is tried again before %v", most/2)
			}
			time.Sleep(most/2 + 1)
		}
		c.obey(wire.Order{Run: settled, Rollout: "rol_0"})
		if !tries(settled) {
			t.Fatal("a new order waits for a retry of the one before")
		}
		time.Sleep(refusedFirst)
		if !tries(settled) {
			t.Fatal("under a new order the first pause is as long as the last was")
		}
		for _, rollout := range []string{"rol_1", "rol_2"} {
			c.obey(wire.Order{Run: running.digest, Candidate: candidate, Percent: 10, Rollout: rollout})
			if !tries(candidate) {
				t.Fatal("a candidate waits for a retry of another release")
			}
			time.Sleep(24 * time.Hour)
			if tries(candidate) {
				t.Fatal("a candidate that was refused is tried again")
			}
		}
	})
}

// TestReleaseAfterARefusedOne: the next release is tried by a node that refuses the one it is
// to run, beside what it runs instead, and takes its place.
func TestReleaseAfterARefusedOne(t *testing.T) {
	const refused = "sha256:refused"
	synctest.Test(t, func(t *testing.T) {
		c := &Controller{
			cfg: Config{Changed: func() {}}, router: newRouter(plainDeployment(t, "running")), log: slog.New(slog.DiscardHandler),
			store: &releaseStore{}, opened: make(chan opened), refused: backoff.New(refusedFirst, refusedMost),
		}
		next := plainDeployment(t, "next")
		c.obey(wire.Order{Run: refused})
		c.step(t.Context())
		c.finish(<-c.opened)
		c.obey(wire.Order{Run: refused, Candidate: next.digest, Percent: 10, Rollout: "rol_1"})
		for range 3 {
			c.step(t.Context())
			if c.opening != nil {
				if c.opening.digest != next.digest {
					t.Fatalf("it opens %s", c.opening.digest)
				}
				done := <-c.opened
				done.deployment, done.err = next, nil // as a store that trusts its key has it
				c.finish(done)
			}
			time.Sleep(refusedMost)
		}
		if s := c.candidateStatus(); s == nil || s.Digest != next.digest || s.State != wire.ReleaseReady || s.Percent != 10 {
			t.Fatalf("the next release is %+v", s)
		}
	})
}

// TestTriesWhatRanLast: the release that ran before the start and was refused at it is tried
// again although no origin orders it, and the node is in service once it runs.
func TestTriesWhatRanLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		last := plainDeployment(t, "last")
		c := &Controller{
			cfg: Config{Changed: func() {}}, router: newRouter(plainDeployment(t, "before")), log: slog.New(slog.DiscardHandler),
			store: &releaseStore{kept: keptRelease{Digest: last.digest}}, opened: make(chan opened), refused: backoff.New(refusedFirst, refusedMost),
		}
		c.refuseFirst(last.digest, "1.1.0", errNoKeys)
		c.step(t.Context())
		if c.opening != nil || c.Refusal() == nil {
			t.Fatal("it is tried at once, or in service")
		}
		time.Sleep(refusedFirst)
		c.step(t.Context())
		if c.opening == nil || c.opening.digest != last.digest {
			t.Fatalf("after %v it opens %v", refusedFirst, c.opening)
		}
		<-c.opened
		c.router.run(last)
		c.opening, c.candidate = nil, nil
		c.step(t.Context())
		if err := c.Refusal(); err != nil {
			t.Errorf("it runs, and yet: %v", err)
		}
	})
}

// TestJudgesEachPercentage: what both releases did equally badly while they ran beside each
// other does not speak against the candidate once it answers alone. What it does then does.
func TestJudgesEachPercentage(t *testing.T) {
	running, candidate := plainDeployment(t, "running"), plainDeployment(t, "candidate")
	c := &Controller{cfg: Config{Changed: func() {}}, router: newRouter(running), store: &releaseStore{}, log: slog.New(slog.DiscardHandler)}
	answer := func(d *deployment, requests, errors int) {
		for i := range requests {
			status := 200
			if i < errors {
				status = 500
			}
			d.traffic.Add(status, time.Millisecond)
		}
	}
	answer(running, 100_000, 0)
	for _, tt := range []struct {
		percent, errors int // errors of 400 requests
		withdrawn       bool
	}{{10, 20, false}, {100, 0, false}, {100, 20, true}} {
		if routes := c.router.routes.Load(); routes.percent != tt.percent {
			c.router.try(candidate, tt.percent)
		}
		if tt.percent < 100 {
			answer(running, 4000, 10*tt.errors)
		}
		answer(candidate, 400, tt.errors)
		c.judge()
		if withdrawn := c.router.routes.Load().candidate == nil; withdrawn != tt.withdrawn {
			t.Fatalf("%d errors in 400 requests at %d %%: withdrawn is %t", tt.errors, tt.percent, withdrawn)
		}
	}
}

// chunkOrigin answers the first chunk of a blob, and says of each further request when it
// came. It answers those by fn.
type chunkOrigin struct {
	asked chan struct{}
	fn    func(context.Context) error
}

func (o chunkOrigin) Ask(ctx context.Context, _ string, req, reply wire.Message) error {
	if req.(*wire.BlobRequest).Offset == 0 {
		*reply.(*wire.BlobReply) = wire.BlobReply{Size: 1000, Data: make([]byte, 500)}
		return nil
	}
	o.asked <- struct{}{}
	return o.fn(ctx)
}

func (chunkOrigin) Subscribe(string, chan *nats.Msg) error   { return nil }
func (chunkOrigin) Decode(string, []byte, wire.Message) bool { return true }

// TestPartsOfAReleaseGo: what has arrived of a release is kept while the origin cannot be
// asked for the rest, and goes once the origin orders it no more.
func TestPartsOfAReleaseGo(t *testing.T) {
	for name, fn := range map[string]func(context.Context) error{
		"cancelled":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"unavailable": func(context.Context) error { return host.ErrUnavailable },
	} {
		t.Run(name, func(t *testing.T) {
			origin := chunkOrigin{make(chan struct{}), fn}
			store, err := openStore(Config{Dir: t.TempDir(), Origin: origin, FetchTimeout: time.Hour, Log: slog.New(slog.DiscardHandler),
				Policy: release.Policy{Keys: make([]minisign.PublicKey, 1)}})
			if err != nil {
				t.Fatal(err)
			}
			running := plainDeployment(t, "running")
			c := &Controller{
				cfg: Config{Changed: func() {}}, router: newRouter(running), store: store, log: slog.New(slog.DiscardHandler),
				opened: make(chan opened), refused: backoff.New(refusedFirst, refusedMost),
			}
			c.obey(wire.Order{Run: running.digest, Candidate: "sha256:" + strings.Repeat("0", 64), Percent: 10, Rollout: "rol_1"})
			c.step(t.Context())
			<-origin.asked
			if name == "unavailable" {
				if c.finish(<-c.opened); len(store.origin.parts) == 0 {
					t.Error("what has arrived is gone while it is wanted")
				}
			}
			c.obey(wire.Order{Run: running.digest, Rollout: "rol_1"})
			c.step(t.Context())
			if name == "cancelled" {
				c.finish(<-c.opened)
			}
			if n := len(store.origin.parts); n != 0 {
				t.Errorf("%d parts are kept of a release that is not wanted", n)
			}
		})
	}
}

// TestLongReasons: what a node says of a release stays short, for origins take no long status,
// and would hear the node no more.
func TestLongReasons(t *testing.T) {
	why := errors.New("\xff" + strings.Repeat("é", 10<<10))
	for name, refuse := range map[string]func(*Controller, error){
		"refused": func(c *Controller, err error) {
			c.finish(opened{&opening{digest: "sha256:next", candidate: true, cancel: func() {}}, nil, err})
		},
		"unavailable": func(c *Controller, err error) {
			c.finish(opened{&opening{digest: "sha256:next", cancel: func() {}}, nil, fmt.Errorf("%w: %w", host.ErrUnavailable, err)})
		},
		"refused at the start": func(c *Controller, err error) { c.refuseFirst("sha256:next", "1.1.0", err) },
	} {
		c := &Controller{
			cfg: Config{Changed: func() {}}, router: newRouter(plainDeployment(t, "running")), log: slog.New(slog.DiscardHandler),
			store: &releaseStore{}, refused: backoff.New(refusedFirst, refusedMost), order: &wire.Order{Candidate: "sha256:next"},
			candidate: &wire.ReleaseStatus{Digest: "sha256:next", State: wire.ReleaseFetching},
		}
		refuse(c, why)
		_, candidate := c.Status()
		if n := len(candidate.Reason); n < 900 || n > 1000 || !utf8.ValidString(candidate.Reason) {
			t.Errorf("%s: the reason has %d bytes, or is not in UTF-8", name, n)
		}
	}
}

// TestRemembersWhatRuns: a full disk keeps for no longer than it is full what a restart is to
// run from being written down.
func TestRemembersWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "release.json")
		if err := os.WriteFile(file, []byte(`{"digest":"first","before":"earlier"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		disk := durabletest.New(t, dir)
		store, err := openStore(Config{Dir: dir, FS: disk, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		c := &Controller{
			cfg: Config{Changed: func() {}}, router: newRouter(plainDeployment(t, "earlier")), store: store, before: store.kept.Digest,
			log: slog.New(slog.DiscardHandler), refused: backoff.New(refusedFirst, refusedMost),
		}
		expect := func(when string, want keptRelease) {
			t.Helper()
			c.step(t.Context())
			var kept keptRelease
			if err := durable.ReadJSON(file, &kept); err != nil || !reflect.DeepEqual(kept, want) {
				t.Errorf("%s: a restart runs %+v, not %+v, %v", when, kept, want, err)
			}
		}
		first := keptRelease{Digest: "first", Before: "earlier"}
		c.refuseFirst(first.Digest, "1.1.0", errNoKeys)
		expect("the release that ran last is refused", first)
		disk.Fail(durabletest.Rename, 1, syscall.ENOSPC)
		c.obey(wire.Order{Run: "earlier"})
		expect("the one before is ordered, on a full disk", first)
		expect("at once", first)
		time.Sleep(rememberRetry)
		earlier := keptRelease{Digest: "earlier", Before: "first"}
		expect("there is room", earlier)

		disk.Fail(durabletest.Rename, 3, syscall.ENOSPC)
		c.obey(wire.Order{Run: "next"})
		c.promote(plainDeployment(t, "next"))
		c.obey(wire.Order{Run: "last"})
		c.retryAt = time.Now().Add(time.Hour) // it is refused, say
		expect("the next is promoted, on a full disk", earlier)
		time.Sleep(rememberRetry)
		expect("there is room again", keptRelease{Digest: "next", Before: "earlier", Earlier: []string{"first"}})

		disk.Fail(durabletest.Rename, 5, syscall.ENOSPC)
		kept := store.kept
		c.obey(wire.Order{Run: "next", RolledBack: "earlier"})
		expect("the one before was rolled back, on a full disk", kept)
		time.Sleep(rememberRetry)
		kept.RolledBack = []string{"earlier"}
		expect("there is room for that", kept)
		c.obey(wire.Order{Run: "next", Candidate: "earlier", Rollout: "rol_1"})
		c.opening = &opening{digest: "earlier", rollout: "rol_1"}
		expect("the next rollout has begun", kept)
		c.opening, c.candidate = nil, nil
		c.obey(wire.Order{Run: "earlier"})
		c.promote(plainDeployment(t, "earlier"))
		expect("it is ordered anew", keptRelease{Digest: "earlier", Before: "next", Earlier: []string{"first"}})
	})
}

// TestOwnModulesEndWhatRuns: what ran before the node's own modules does not run by itself again,
// however many releases ran since.
func TestOwnModulesEndWhatRuns(t *testing.T) {
	k := keptRelease{Digest: "x"}
	k = k.next("", "", "x").next("a", "1.0.0", "").next("b", "2.0.0", "a").under(wire.Order{Run: "a", RolledBack: "b"})
	if got, want := k.toRun(), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("a restart is to run %q, want %q", got, want)
	}
}
