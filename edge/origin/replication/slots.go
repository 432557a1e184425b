package replication

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"partneredge/store"
)

// Bounds of the requests that are answered at once.
const (
	slotsInAll    = 64
	slotsOfNode   = 32
	waitingOfNode = 1024 // beyond them a request is refused at once
	slotsOfRefill = 1    // in all: each is up to wire.MaxRefill keys, and lookups go first
	slotsOfLeads  = 16   // in all: batches share a transaction, for which other writes wait
)

// errBusy is the error of a request for which there is no room.
var errBusy = errors.New("too many requests at once")

// slots bounds the requests of one kind that are answered at once, in all and of
// each node, so that no node takes them all.
type slots struct {
	nodes semaphores
	all   chan struct{} // holds one for each request being answered
}

func newSlots() *slots { return newSlotsOf(slotsInAll, slotsOfNode) }

func newSlotsOf(all, node int) *slots {
	return &slots{
		nodes: semaphores{most: node, waiting: waitingOfNode},
		all:   make(chan struct{}, all),
	}
}

// run calls fn once there is a slot for the node.
func (s *slots) run(ctx context.Context, node string, fn func() error) error {
	return s.nodes.run(ctx, node, func() error {
		select {
		case s.all <- struct{}{}:
			defer func() { <-s.all }()
			return fn()
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errBusy, ctx.Err())
		}
	})
}

// semaphores bound what happens at once for each of many names.
type semaphores struct {
	most    int // at once for one name
	waiting int // for one name beside them

	mu     sync.Mutex
	byName map[string]*semaphore
}

type semaphore struct {
	slots chan struct{}
	users int // who hold a slot or wait for one
}

// run calls fn once there is room for the name.
func (s *semaphores) run(ctx context.Context, name string, fn func() error) error {
	one := s.join(name)
	if one == nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, errBusy)
	}
	defer s.leave(name, one)
	select {
	case one.slots <- struct{}{}:
		defer func() { <-one.slots }()
		return fn()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errBusy, ctx.Err())
	}
}

// join returns the semaphore of a name, nil when too many wait for it.
func (s *semaphores) join(name string) *semaphore {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byName[name]
	if one == nil {
		one = &semaphore{slots: make(chan struct{}, s.most)}
		if s.byName == nil {
			s.byName = make(map[string]*semaphore)
		}
		s.byName[name] = one
	}
	if one.users >= s.most+s.waiting {
		return nil
	}
	one.users++
	return one
}

func (s *semaphores) leave(name string, one *semaphore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(s.byName, name)
	}
}
