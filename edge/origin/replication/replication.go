// Package replication is the origin's side of what nodes hold: it answers their
// requests, pushes changes to them, merges their rate-limit reports, and knows
// which nodes are enrolled and connected. It is also how origin processes of one
// database wake each other.
package replication

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/logging"
	"partneredge/edge/origin/replication/spending"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/store/central"
	"partneredge/store/signal"
)

// Guard judges whether a webhook target may be called.
type Guard interface {
	// Check returns the name of the rule that refuses rawURL, "" when none does.
	// An error means that rawURL could not be judged.
	Check(ctx context.Context, rawURL string) (reason string, err error)
}

// Config of a Server. Every field but Tracer is required.
type Config struct {
	DB    *central.DB
	Conn  *nats.Conn
	Guard Guard
	Log   *slog.Logger
	Now   func() time.Time
	// Tracer makes spans of requests. nil: none.
	Tracer *tracing.Tracer

	// Revoke ends the connections of the users that hold these public keys, revoked
	// since the times given.
	Revoke func(context.Context, map[string]time.Time) error
	// OnWake is called when another origin process says that deliveries are due. It
	// must return at once.
	OnWake func()
	// AllowOldNodes makes the origin believe every node without the hashes of keys, as it
	// believes those that have never spoken wire version 2: for a return to an earlier
	// program.
	AllowOldNodes bool
	// Observe is called after each request, with "" when it was answered.
	Observe func(verb string, failure wire.Failure, took time.Duration)
	// ObserveRefused is called with how many leads were quarantined, and how many
	// were left at their node since the quarantine is full or the clock was put back.
	ObserveRefused func(quarantined, rejected int)
	// ObserveRefusal is called with how often a node was refused for a reason: a
	// grant.Refusal, one of package usage or one of those below.
	ObserveRefusal func(node, reason string, times int)
	// ObserveUnread is called each time that a node asks for a key whose row is damaged.
	ObserveUnread func()
}

// Reasons why a node is refused that have nothing to do with a key.
const (
	RefusedNode  = "not_enrolled"  // it is revoked, or not known
	RefusedReply = "reply_subject" // it asked for an answer to a subject that is not its own
	RefusedSize  = "too_large"     // it sent more bytes than wire.MaxBytes
)

// Server answers nodes and pushes to them until it is stopped.
type Server struct {
	presence *Presence
	merge    *spending.Merger
	usage    *keyUsage
	pump     *pump
	waker    *waker
	requests *requests

	unsubscribe func()             // from the database's commits
	cancel      context.CancelFunc // of the loops
	loops       sync.WaitGroup
}

// Start returns once nodes are answered. The caller ends the Server with Stop.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	presence, err := newPresence(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{
		presence: presence,
		merge:    spending.New(spending.Config{DB: cfg.DB, Conn: cfg.Conn, Log: cfg.Log, Now: cfg.Now, Address: presence.Address}),
		pump:     &pump{Config: cfg, limited: logging.New(cfg.Log), wake: signal.New(), long: presence.long},
		waker:    newWaker(cfg),
	}
	s.usage = &keyUsage{Config: cfg, confirm: s.merge.Confirm, limited: logging.New(cfg.Log)}
	if err := s.pump.start(ctx); err != nil {
		return nil, err
	}
	if err := s.waker.start(); err != nil {
		return nil, fmt.Errorf("subscribing to the other origin processes: %w", err)
	}
	s.requests = &requests{Config: cfg, presence: s.presence, merge: s.merge, usage: s.usage, limited: logging.New(cfg.Log)}
	if err := s.requests.start(); err != nil {
		return nil, err
	}
	s.unsubscribe = cfg.DB.OnCommit(func(c central.Commit) {
		if len(c.Changes) > 0 {
			s.pump.wake.Send()
		}
		if c.Deliveries > 0 {
			s.waker.wake.Send()
		}
	})
	running, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	for _, run := range []func(context.Context){s.pump.run, s.waker.run, s.presence.run, s.presence.writeAll, s.merge.Run, s.usage.run} {
		s.loops.Go(func() { run(running) })
	}
	return s, nil
}

// Stop waits for the requests under way, which are cut short when ctx ends, and
// then ends all else. It may be called again.
func (s *Server) Stop(ctx context.Context) {
	s.unsubscribe()
	s.requests.stop(ctx)
	s.cancel()
	s.loops.Wait()
}

// Presence returns the enrolled nodes and what each reported last.
func (s *Server) Presence() *Presence { return s.presence }

// LastChange returns the number of the last change pushed.
func (s *Server) LastChange() int64 { return s.pump.last.Load() }

// MergedKeys counts the keys whose rate-limit reports are merged.
func (s *Server) MergedKeys() int { return s.merge.Keys() }
