// Package wan is a TCP relay that takes its time: what goes in comes out Delay
// later, whole and in order, in both directions. It puts an ocean between a node
// and the origin that run on one machine.
package wan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Config of a relay.
type Config struct {
	// Target is the host:port to which connections are passed on. Required.
	Target string
	// Delay is how long each byte is kept, one way: a round trip takes twice as
	// long. 0 keeps none.
	Delay time.Duration
}

// On the way are at most chunks of chunkSize bytes, each way of each connection;
// then the sender waits. At 40 ms that lets 1.6 GB/s through.
const (
	chunkSize = 64 << 10
	chunks    = 1024
)

// Relay listens on a free port of loopback until it is stopped.
type Relay struct {
	config   Config
	listener net.Listener
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu     sync.Mutex
	cut    bool
	conns  map[net.Conn]struct{} // the near ends; the far ones follow them
	moving chan struct{}         // closed while bytes are passed on
}

// Start opens the relay. It ends with ctx, or with Stop.
func Start(ctx context.Context, config Config) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the relay to %s: %w", config.Target, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &Relay{config: config, listener: listener, cancel: cancel, conns: map[net.Conn]struct{}{}, moving: make(chan struct{})}
	close(r.moving)
	context.AfterFunc(ctx, func() { listener.Close() })
	r.done.Go(func() { r.accept(ctx) })
	return r, nil
}

// Addr is where the relay listens, as host:port.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Cut closes every connection and takes no more until Mend: the far side is
// gone.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	for c := range r.conns {
		c.Close()
	}
}

// Stall keeps every connection and passes nothing on until Mend: the way is
// dead, and neither side is told.
func (r *Relay) Stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stalled() {
		r.moving = make(chan struct{})
	}
}

// stalled is for who holds mu.
func (r *Relay) stalled() bool {
	select {
	case <-r.moving:
		return false
	default:
		return true
	}
}

// Mend ends what Cut or Stall began. What a stall held up comes late, and whole.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
	if r.stalled() {
		close(r.moving)
	}
}

// await returns when bytes may pass; false when the relay ends first.
func (r *Relay) await(ctx context.Context) bool {
	r.mu.Lock()
	moving := r.moving
	r.mu.Unlock()
	select {
	case <-moving:
		return true
	case <-ctx.Done():
		return false
	}
}

// admit tells whether c may be passed on, and lets Cut find it.
func (r *Relay) admit(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *Relay) forget(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// Stop closes every connection and returns when none is left. It may be called
// twice.
func (r *Relay) Stop() {
	r.cancel()
	r.done.Wait()
}

func (r *Relay) accept(ctx context.Context) {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.done.Go(func() { r.join(ctx, near) })
	}
}

// join passes on what comes from near and what the target answers, until both
// ways have ended.
func (r *Relay) join(ctx context.Context, near net.Conn) {
	defer near.Close()
	if !r.admit(near) {
		return
	}
	defer r.forget(near)
	var dialer net.Dialer
	far, err := dialer.DialContext(ctx, "tcp", r.config.Target)
	if err != nil {
		return
	}
	defer far.Close()
	release := context.AfterFunc(ctx, func() {
		near.Close()
		far.Close()
	})
	defer release()

	var ways sync.WaitGroup
	ways.Go(func() { r.pass(ctx, far, near) })
	ways.Go(func() { r.pass(ctx, near, far) })
	ways.Wait()
}

// chunk is some bytes and when they are due; nil bytes are the end.
type chunk struct {
	bytes []byte
	due   time.Time
}

// pass copies one way. The end of from reaches to as late as its last byte.
func (r *Relay) pass(ctx context.Context, to, from net.Conn) {
	way := make(chan chunk, chunks)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(way)
		for {
			b := make([]byte, chunkSize)
			n, err := from.Read(b)
			if n > 0 {
				way <- chunk{b[:n], time.Now().Add(r.config.Delay)}
			}
			if err != nil {
				way <- chunk{due: time.Now().Add(r.config.Delay)}
				return
			}
		}
	})
	err := r.deliver(ctx, to, way)
	if err != nil {
		from.Close() // nobody listens any more: the reader may stop
		for range way {
		}
	}
	reader.Wait()
}

func (r *Relay) deliver(ctx context.Context, to net.Conn, way <-chan chunk) error {
	for c := range way {
		time.Sleep(time.Until(c.due))
		if !r.await(ctx) {
			return ctx.Err()
		}
		if c.bytes == nil {
			return closeWrite(to)
		}
		if _, err := to.Write(c.bytes); err != nil {
			return err
		}
	}
	return nil
}

// closeWrite says that nothing more comes, and leaves the other way open.
func closeWrite(c net.Conn) error {
	half, ok := c.(*net.TCPConn)
	if !ok {
		return c.Close()
	}
	if err := half.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
