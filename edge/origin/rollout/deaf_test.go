package rollout

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/store"
)

// TestDeafOriginJudgesNobody: an origin that is cut off from NATS hears no node, and takes no
// step for that: not while it is cut off, nor once it hears again.
func TestDeafOriginJudgesNobody(t *testing.T) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	conn, err := nats.Connect("", nats.InProcessServer(s), nats.MaxReconnects(-1), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s.Shutdown()
	s.WaitForShutdown()
	for tick := time.NewTicker(time.Millisecond); conn.IsConnected(); <-tick.C {
	}

	silent := newCluster(3, nil)
	silent.all()
	silent.steps(time.Second)
	for id := range silent.reports {
		silent.leave(id)
	}
	silent.steps(lostMost - time.Second)
	c := &Controller{config: Config{Conn: conn, Now: func() time.Time { return silent.now }}, began: silent.began, losses: silent.losses}
	silent.now = silent.now.Add(time.Hour)
	if err := c.step(t.Context()); err != nil { // it has no database, and asks none
		t.Fatal(err)
	}

	silent.began, silent.losses = c.began, c.losses
	silent.steps(lostMost - time.Second)
	if r := silent.rollout; r.Reason != "" {
		t.Errorf("after an hour without NATS: %s, %q", r.State, r.Reason)
	}
	silent.steps(2 * time.Second)
	if silent.rollout.Reason == "" {
		t.Error("nodes that are not heard then are waited for without an end")
	}
}

// TestNodesThatAnotherOriginHears: the NATS servers of two origins have lost each other, and one
// of them hears no node. It takes no step for that while the other hears them, in a rollout or
// back, and each node that nobody hears counts as ever.
func TestNodesThatAnotherOriginHears(t *testing.T) {
	c := newCluster(3, nil)
	c.all()
	c.steps(time.Second)
	c.spoke = map[string]time.Time{}
	hear := func(long time.Duration) {
		for range long / time.Second {
			for id := range c.reports {
				c.spoke[id] = c.now
			}
			c.steps(time.Second)
		}
	}
	for id := range c.reports {
		c.leave(id)
	}
	if hear(2 * lostMost); c.rollout.Reason != "" {
		t.Fatalf("nodes that another origin hears: %s, %q", c.rollout.State, c.rollout.Reason)
	}
	for id := range c.reports {
		c.spoke[id] = c.now.Add(time.Hour) // by a clock that was ahead then
	}
	for end := c.now.Add(lostMost + time.Second); c.rollout.Reason == "" && c.now.Before(end); {
		c.steps(time.Second)
	}
	if c.rollout.Reason == "" {
		t.Fatal("nodes that nobody hears are waited for without an end")
	}
	if hear(2 * lostMost); c.rollout.State != store.RollingBack {
		t.Errorf("a rollback whose nodes another origin hears: %s", c.rollout.State)
	}
	if c.steps(2 * lostMost); c.rollout.State != store.RolledBack {
		t.Errorf("a rollback whose nodes nobody hears: %s", c.rollout.State)
	}
}
