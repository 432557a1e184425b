// Package wan simulates a wide area network: a TCP relay that delivers what it
// receives after a delay, complete and in order, in both directions. It stands
// between a node and an origin that run on one machine.
package wan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Config configures a relay.
type Config struct {
	// Target is the host:port that connections are relayed to. Required.
	Target string
	// Delay is the delay of each byte, one way; a round trip takes twice as long.
	// 0 means none.
	Delay time.Duration
}

// In each direction of a connection at most maxChunks of chunkSize bytes are on
// their way; then the sender waits. With a delay of 40 ms that allows 1.6 GB/s.
const (
	chunkSize = 64 << 10
	maxChunks = 1024
)

// Relay listens on a free port of loopback until it is stopped.
type Relay struct {
	config   Config
	listener net.Listener
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu      sync.Mutex
	cut     bool
	clients map[net.Conn]struct{} // connections to the targets end with them
	moving  chan struct{}         // closed while bytes are delivered
}

// Start starts a relay, which runs until ctx ends or Stop is called.
func Start(ctx context.Context, config Config) (*Relay, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the relay to %s: %w", config.Target, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &Relay{config: config, listener: listener, cancel: cancel, clients: map[net.Conn]struct{}{}, moving: make(chan struct{})}
	close(r.moving)
	context.AfterFunc(ctx, func() { listener.Close() })
	r.done.Go(func() { r.accept(ctx) })
	return r, nil
}

// Addr returns the host:port that the relay listens on.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Cut closes every connection and refuses new ones until Mend, as if the target
// were gone.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = true
	for c := range r.clients {
		c.Close()
	}
}

// Stall delivers nothing until Mend but keeps every connection open, as if the
// network had failed without a sign to either side.
func (r *Relay) Stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.stalled() {
		r.moving = make(chan struct{})
	}
}

// stalled reports whether Stall is in effect. mu is held.
func (r *Relay) stalled() bool {
	select {
	case <-r.moving:
		return false
	default:
		return true
	}
}

// Mend ends the effect of Cut or Stall. Bytes that a stall held up arrive late and
// complete.
func (r *Relay) Mend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = false
	if r.stalled() {
		close(r.moving)
	}
}

// await waits until bytes may be delivered. It returns false if ctx ends first.
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

// admit registers c for Cut, and reports whether it may be relayed.
func (r *Relay) admit(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cut {
		return false
	}
	r.clients[c] = struct{}{}
	return true
}

func (r *Relay) forget(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.clients, c)
}

// Stop closes every connection and waits until all have ended. It may be called
// twice.
func (r *Relay) Stop() {
	r.cancel()
	r.done.Wait()
}

func (r *Relay) accept(ctx context.Context) {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.done.Go(func() { r.relay(ctx, client) })
	}
}

// relay connects a client with the target until both directions have ended.
func (r *Relay) relay(ctx context.Context, client net.Conn) {
	defer client.Close()
	if !r.admit(client) {
		return
	}
	defer r.forget(client)
	var dialer net.Dialer
	target, err := dialer.DialContext(ctx, "tcp", r.config.Target)
	if err != nil {
		return
	}
	defer target.Close()
	stop := context.AfterFunc(ctx, func() {
		client.Close()
		target.Close()
	})
	defer stop()

	var both sync.WaitGroup
	both.Go(func() { r.copy(ctx, target, client) })
	both.Go(func() { r.copy(ctx, client, target) })
	both.Wait()
}

// chunk is some bytes with the time to deliver them; nil bytes mean the end.
type chunk struct {
	bytes []byte
	due   time.Time
}

// copy copies one direction. The end of the stream is delayed like its bytes.
func (r *Relay) copy(ctx context.Context, to, from net.Conn) {
	chunks := make(chan chunk, maxChunks)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(chunks)
		b := make([]byte, chunkSize)
		for {
			n, err := from.Read(b)
			if n > 0 {
				chunks <- chunk{bytes.Clone(b[:n]), time.Now().Add(r.config.Delay)}
			}
			if err != nil {
				chunks <- chunk{due: time.Now().Add(r.config.Delay)}
				return
			}
		}
	})
	err := r.deliver(ctx, to, chunks)
	if err != nil {
		from.Close() // ends the reader
		for range chunks {
		}
	}
	reader.Wait()
}

func (r *Relay) deliver(ctx context.Context, to net.Conn, chunks <-chan chunk) error {
	for c := range chunks {
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

// closeWrite ends the stream to c and leaves the other direction open.
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
