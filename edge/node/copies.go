package node

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
)

// copies fetches records from the origin and keeps them on the node's shelves.
// However many requests need a record, it is asked for once at a time.
type copies struct {
	store   *local.Store
	link    *link
	log     *slog.Logger
	now     func() time.Time
	timeout time.Duration

	life    context.Context // of fetches; ends with the node
	flights singleflight.Group
	renew   chan string // flights to be made because of a change
	working sync.WaitGroup
}

// renewers is how many records are asked for at once because they changed; what
// is needed by a request does not wait for them.
const (
	renewers    = 4
	renewalsDue = 4096 // beyond these, a changed record is asked for when it is needed
)

// Names of flights, and of records on the shelf of views: a letter or a word,
// and what it is about.
const keyFlight = "key/"

func viewName(kind store.ChangeKind, account string) string { return string(kind) + "/" + account }

// start begins renewing. life ends it.
func (c *copies) start(life context.Context) {
	c.life = life
	c.renew = make(chan string, renewalsDue)
	for range renewers {
		c.working.Go(func() {
			for {
				select {
				case <-life.Done():
					return
				case name := <-c.renew:
					if _, err := c.fetch(life, name); err != nil {
						c.log.Debug("changed record not renewed", "err", err)
					}
				}
			}
		})
	}
}

// apply takes a change in. A held record it concerns is stale at once, a
// revoked key refused at once; the new record is then asked for.
func (c *copies) apply(change store.Change) error {
	if change.Kind != store.ChangeKey {
		name := viewName(change.Kind, change.Ref)
		_, concerned, err := c.store.Views.Change(name, change.Seq, nil)
		if err == nil && concerned {
			c.due(name)
		}
		return err
	}
	c.store.Negatives.Clear()
	var replace func(string) string
	if change.Gone {
		replace = revokedFrame
	}
	name, concerned, err := c.store.Keys.Change(change.Ref, change.Seq, replace)
	if err == nil && concerned && !change.Gone {
		c.due(keyFlight + name)
	}
	return err
}

func (c *copies) due(flight string) {
	select {
	case c.renew <- flight:
	default:
	}
}

// key asks for the key that hashes to name.
func (c *copies) key(ctx context.Context, name string) (local.Record, error) {
	return c.fetch(ctx, keyFlight+name)
}

// fetch asks for a record and waits until it is here or ctx ends.
func (c *copies) fetch(ctx context.Context, flight string) (local.Record, error) {
	life := tracing.Onward(c.life, ctx) // here: ctx is this goroutine's alone
	landed := c.flights.DoChan(flight, func() (any, error) {
		// Others may wait for it: it does not end with the request that began it.
		within, cancel := context.WithTimeout(life, c.timeout)
		defer cancel()
		return c.fly(within, flight)
	})
	select {
	case r := <-landed:
		if r.Err != nil {
			return local.Record{}, r.Err
		}
		return r.Val.(local.Record), nil
	case <-ctx.Done():
		return local.Record{}, fmt.Errorf("%w: %w", host.ErrUnavailable, ctx.Err())
	}
}

// fly asks again when a change overtook the answer.
func (c *copies) fly(ctx context.Context, flight string) (rec local.Record, err error) {
	const tries = 4
	for range tries {
		if hash, ok := strings.CutPrefix(flight, keyFlight); ok {
			rec, err = c.fetchKey(ctx, hash)
		} else {
			kind, account, _ := strings.Cut(flight, "/")
			rec, err = c.fetchView(ctx, store.ChangeKind(kind), account)
		}
		if err != nil || !rec.Stale() {
			return rec, err
		}
	}
	return rec, fmt.Errorf("%w: record changes faster than it can be read", host.ErrUnavailable)
}

func (c *copies) fetchKey(ctx context.Context, name string) (local.Record, error) {
	turn := c.store.Negatives.Turn()
	at := c.now()
	var reply wire.KeyReply
	err := c.link.ask(ctx, wire.VerbKey, &wire.KeyRequest{Hash: []byte(name)}, &reply)
	switch {
	case isNotFound(err):
		c.store.Negatives.Add([32]byte([]byte(name)), turn)
		return local.Record{}, c.dropped(c.store.Keys, name, err)
	case err != nil:
		return local.Record{}, err
	case reply.Key == nil || string(reply.Key.Hash[:]) != name:
		return local.Record{}, fmt.Errorf("%w: origin answered with another key", host.ErrUnavailable)
	}
	return c.store.Keys.Put(name, local.Record{
		Ref: reply.Key.ID, Frame: string(keyFrame(reply.Key)), Seq: reply.Seq, Fetched: at,
	})
}

func (c *copies) fetchView(ctx context.Context, kind store.ChangeKind, account string) (local.Record, error) {
	name := viewName(kind, account)
	at := c.now()
	reply, err := c.view(ctx, wire.ViewRequest{AccountID: account, Kind: kind})
	if isNotFound(err) {
		return local.Record{}, c.dropped(c.store.Views, name, err)
	}
	if err != nil {
		return local.Record{}, err
	}
	var frame []byte
	switch kind {
	case store.ChangeProfile:
		frame = profileFrame(reply.Account)
	case store.ChangeInsights:
		frame = insightsFrame(reply.Insights, reply.History)
	case store.ChangeFirings:
		frame = firingsFrame(reply.Firings, reply.More)
	}
	return c.store.Views.Put(name, local.Record{Ref: name, Frame: string(frame), Seq: reply.Seq, Fetched: at})
}

// view asks for a view that is not to be kept, or not as it is.
func (c *copies) view(ctx context.Context, req wire.ViewRequest) (*wire.ViewReply, error) {
	var reply wire.ViewReply
	if err := c.link.ask(ctx, wire.VerbView, &req, &reply); err != nil {
		return nil, err
	}
	if req.Kind == store.ChangeProfile && reply.Account == nil {
		return nil, fmt.Errorf("%w: origin answered without the account", host.ErrUnavailable)
	}
	return &reply, nil
}

// dropped forgets a record that the origin no longer has.
func (c *copies) dropped(shelf *local.Shelf, name string, found error) error {
	if err := shelf.Drop(name); err != nil {
		return err
	}
	return found
}
