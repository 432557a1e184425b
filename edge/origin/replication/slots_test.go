package replication

import (
	"context"
	"errors"
	"sync"
	"testing"

	"partneredge/store"
)

// TestSlotsOfNodes: a node whose requests take as long as they like leaves room for
// the others', and more than may wait are refused at once.
func TestSlotsOfNodes(t *testing.T) {
	s := newSlots()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	entered := make(chan struct{}, slotsOfNode+waitingOfNode)
	var held sync.WaitGroup
	hold := func() error {
		entered <- struct{}{}
		<-ctx.Done()
		return nil
	}
	refused := make(chan error, slotsOfNode+waitingOfNode+1)
	for range slotsOfNode + waitingOfNode + 1 {
		held.Go(func() {
			if err := s.run(ctx, "greedy", 0, hold); err != nil {
				refused <- err
			}
		})
	}
	for range slotsOfNode {
		<-entered
	}
	if err := <-refused; !errors.Is(err, errBusy) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("beyond those that wait: %v", err)
	}
	ran := false
	if err := s.run(t.Context(), "other", 0, func() error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("another node: %v", err)
	}
	cancel()
	held.Wait()
	if len(s.nodes.byName) != 0 || len(s.all) != 0 {
		t.Errorf("%d nodes, %d slots left", len(s.nodes.byName), len(s.all))
	}
}
