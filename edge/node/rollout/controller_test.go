package rollout

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/host/engine"
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
		cfg: Config{Runtime: runtime}, router: newRouter(running), store: &releaseStore{}, log: slog.New(slog.DiscardHandler),
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

// TestRefusedReleases holds that a settled release which a node refused is tried again,
// since nobody would order it anew, and that a candidate is not, unless another rollout
// brings it.
func TestRefusedReleases(t *testing.T) {
	const settled, candidate = "sha256:settled", "sha256:candidate"
	synctest.Test(t, func(t *testing.T) {
		running := plainDeployment(t, "running")
		c := &Controller{
			cfg: Config{Changed: func() {}}, router: newRouter(running), store: &releaseStore{}, log: slog.New(slog.DiscardHandler), // trusts no key, so it refuses all
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
