package webhook

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"partneredge/store/central/deliveries"
)

// Store is the part of the database that a Sender uses.
type Store interface {
	Kind() string
	SetClaimer(*deliveries.Claimer) error
	Due(ctx context.Context, most int, farthest time.Duration) (subscriptions []string, next time.Time, err error)
	ClaimDeliveries(context.Context, deliveries.ClaimRequest) (claims []deliveries.Claim, more []string, err error)
	EndpointsVersion() uint64
	Endpoints(ctx context.Context, subscriptions []string) (map[string]deliveries.Endpoint, error)
	RecordOutcomes(ctx context.Context, outcomes []deliveries.Outcome) error
	EndLeases(ctx context.Context, owner string) (int, error)
}

// Config of a Sender. Store and Guard are required; the zero value of every other
// field means its default.
type Config struct {
	Store Store
	Guard *Guard
	Log   *slog.Logger // default: none

	// CAFile is a PEM file of who may sign endpoints' certificates besides the
	// system's authorities. Default: none.
	CAFile string

	// Owner names this process among those that share the database. A process that
	// starts again under its old name continues its deliveries at once; those of
	// any other are claimed when their leases end. Default: random, but "origin"
	// where the database has one process only (SQLite).
	Owner string

	// Schedule lists how long after each failed try the next one is due. Default:
	// 5 s, 30 s, 180 s, so four tries in all. Empty, but not nil: one try.
	Schedule []time.Duration
	// Jitter is the part of each delay by which it is lengthened or shortened at
	// random. Default 0.1. Negative: none.
	Jitter float64
	// Timeout of a try, from looking the name up to the answer's headers.
	// Default 10 s.
	Timeout time.Duration

	// PerEndpoint is the most tries under way for one subscription. Default 8.
	PerEndpoint int
	// Fast and Slow are the budgets of tries under way for endpoints that are expected
	// to answer soon and for those that hang. A try of the first that hangs leaves its
	// budget. Defaults 1024 and 4096.
	Fast, Slow int
	// Trial is the part of Fast that is kept for endpoints that have not proven
	// themselves, and is all that they get of it. Default: a quarter of Fast.
	Trial int
	// SlowAfter is when a try counts as slow. Default 1 s.
	SlowAfter time.Duration
	// HoldMost is the longest that a failing endpoint's state delays a delivery
	// past its own time. Default 3 s.
	HoldMost time.Duration

	// Held is the most deliveries in memory. Default 65536.
	Held int
	// Window is the most deliveries of one subscription in memory. Default 4096.
	Window int
	// Lease of the deliveries in memory. Default 30 s; at least twice Timeout.
	Lease time.Duration
	// EndpointAge is how long ago the reading of a subscription may have ended when a
	// delivery is sent to it. With the time that a reading takes, it bounds how late a
	// change by another process is noticed: a change by this one is noticed at once.
	// Default 10 ms, and 1 s where there can be no other (SQLite).
	EndpointAge time.Duration

	newOwner bool // no process had this name before
	// poll is how often the database is searched for what other processes wrote, or
	// left behind.
	poll      time.Duration
	writers   int               // transactions at a time that write outcomes
	transport http.RoundTripper // for tests; nil: newTransport
	// bodyTime bounds the reading of an answer's body once its status is known. Default 2 s.
	bodyTime time.Duration
	// connectionAge is how long connections are given new requests. Default 5 min.
	connectionAge time.Duration
	// endLeasesFor is the least time that Stop takes to end leases, where that takes so
	// long. Default 2 s.
	endLeasesFor time.Duration
}

// flushTime is how much of a lease is left for writing the outcome.
func (c *Config) flushTime() time.Duration { return (c.Lease - c.Timeout) / 4 }

// growWithin is how old the first delivery of a queue may be that is given twice the room:
// all that it then holds can be tried before their leases end, at the rate at which the
// queue is worked off, and another third of that time is left.
func (c *Config) growWithin() time.Duration { return (c.Lease - c.Timeout - c.flushTime()) / 3 }

func (c *Config) fill() error {
	if c.Store == nil || c.Guard == nil {
		return errors.New("start webhook sender: Store and Guard are required")
	}
	alone := c.Store.Kind() == "sqlite"
	if c.Owner == "" {
		c.Owner = "origin"
		if !alone {
			c.Owner += "-" + rand.Text()
			c.newOwner = true
		}
	}
	c.fillSchedule()
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	endpointAge := time.Second
	c.poll, c.writers = time.Second, 1
	if !alone {
		c.poll, endpointAge = 100*time.Millisecond, 10*time.Millisecond
		c.writers = 2 // one works while the other waits for the disk
	}
	orDefault(&c.Timeout, DefaultTimeout)
	orDefault(&c.bodyTime, 2*time.Second)
	orDefault(&c.connectionAge, 5*time.Minute)
	orDefault(&c.endLeasesFor, 2*time.Second)
	orDefault(&c.SlowAfter, time.Second)
	orDefault(&c.HoldMost, 3*time.Second)
	orDefault(&c.Lease, 30*time.Second)
	orDefault(&c.EndpointAge, endpointAge)
	orDefault(&c.PerEndpoint, 8)
	orDefault(&c.Fast, 1024)
	orDefault(&c.Slow, 4096)
	orDefault(&c.Trial, max(1, c.Fast/4))
	orDefault(&c.Held, 65536)
	orDefault(&c.Window, 4096)
	c.Lease = max(c.Lease, 2*c.Timeout)
	return nil
}

func orDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}
