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
	waitingOfNode = 1024     // beyond them a request is refused at once
	bytesOfNode   = 8 << 20  // likewise, of its requests that wait and that are answered
	bytesInAll    = 64 << 20 // likewise, of all nodes
	slotsOfRefill = 1        // in all: each is up to wire.MaxRefill keys, and lookups go first
	slotsOfLeads  = 16       // in all: batches share a transaction, for which other writes wait
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
		nodes: semaphores{most: node, waiting: waitingOfNode, bytes: bytesOfNode, bytesInAll: bytesInAll},
		all:   make(chan struct{}, all),
	}
}

// run calls fn once there is a slot for the node, whose request has size bytes.
func (s *slots) run(ctx context.Context, node string, size int, fn func() error) error {
	return s.nodes.run(ctx, node, size, func() error {
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
	most       int // at once for one name
	waiting    int // for one name beside them
	bytes      int // that they have for one name, at once and waiting
	bytesInAll int // likewise, for all names

	mu     sync.Mutex
	byName map[string]*semaphore
	held   int // bytes for all names
}

type semaphore struct {
	slots chan struct{}
	users int // who hold a slot or wait for one
	held  int // bytes that they have
}

// run calls fn once there is room for the name, for which size bytes are held meanwhile.
func (s *semaphores) run(ctx context.Context, name string, size int, fn func() error) error {
	one := s.join(name, size)
	if one == nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, errBusy)
	}
	defer s.leave(name, size, one)
	select {
	case one.slots <- struct{}{}:
		defer func() { <-one.slots }()
		return fn()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, errBusy, ctx.Err())
	}
}

// join returns the semaphore of a name, nil when too many or too many bytes wait for it.
func (s *semaphores) join(name string, size int) *semaphore {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byName[name]
	if one == nil {
		one = &semaphore{slots: make(chan struct{}, s.most)}
	}
	if one.users >= s.most+s.waiting || one.held+size > s.bytes || s.held+size > s.bytesInAll {
		return nil
	}
	if s.byName == nil {
		s.byName = make(map[string]*semaphore)
	}
	s.byName[name] = one
	one.users++
	one.held += size
	s.held += size
	return one
}

func (s *semaphores) leave(name string, size int, one *semaphore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.held -= size
	s.held -= size
	if one.users--; one.users == 0 {
		delete(s.byName, name)
	}
}
