package rollout

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

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
