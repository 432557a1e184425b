package origin

import (
	"path/filepath"
	"testing"

	"partneredge/edge/wire"
)

// An origin that says that deliveries are due wakes the others, and not itself;
// a node can say no such thing.
func TestWake(t *testing.T) {
	first := begin(t) // makes the keys, and is the first of the two once restarted
	first.stop()
	_, first.config.NATSURL = startCluster(t, filepath.Join(first.config.Dir, "nats"))
	woken := map[string]chan bool{"first": make(chan bool, 10_000), "second": make(chan bool, 10_000)}
	second := &world{T: t, config: first.config, logs: first.logs}
	first.config.OnWake = func() { woken["first"] <- true }
	second.config.OnWake = func() { woken["second"] <- true }
	first.start()
	second.start()
	if err := second.broker.Conn().Flush(); err != nil { // its subscription is there
		t.Fatal(err)
	}
	for range 1000 {
		first.WakeOthers()
	}
	next(first, woken["second"], "wake of the second")
	second.WakeOthers()
	next(first, woken["first"], "wake of the first")
	node := first.enrol("a")
	if err := node.conn.Publish(wire.WakeUp, []byte(`{"v":1,"from":"a"}`)); err != nil {
		t.Fatal(err)
	}
	if err := node.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	next(first, node.errs, "refusal to publish "+wire.WakeUp)
	for name, c := range woken {
		if len(c) > 500 { // many become one
			t.Errorf("the %s was woken %d times more", name, len(c))
		}
	}
}
