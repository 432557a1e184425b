package replication

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/backoff"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/wasm/abi"
)

// Times and bounds of a refill.
const (
	// maxRefilled bounds the keys that are asked for again, those used last. Others are
	// asked for when a request needs them.
	maxRefilled = 20_000
	// refillWithin is the time within which nodes begin that lost step together.
	refillWithin = 5 * time.Second
	// refillTimeout bounds the wait for a batch, longer than the origin lets it wait for
	// its turn.
	refillTimeout = 15 * time.Second
	// refillTries is how often a batch is asked for that gets no answer. An origin of
	// before batches gives none.
	refillTries = 8
	// refillInternal is how often a whole batch is asked for at which the origin fails, for a
	// moment perhaps. Each half of it is asked for once.
	refillInternal = 3
	// refillAgain is about when a refill is taken up again that was interrupted, and later each
	// time, up to refillAgainMost.
	refillAgain     = time.Minute
	refillAgainMost = 5 * time.Minute
	// refillFailures bounds the keys of a batch at each of which the origin fails.
	refillFailures = 8
)

// Refill asks the origin again for keys that are held, in batches for which the origin
// has a slot of its own: what requests wait for and what is pushed goes before them.
type Refill struct {
	// Link is a link.Link.
	Link interface {
		Ask(ctx context.Context, verb string, req, reply wire.Message) error
	}
	// Asking is called before each question, for Put.
	Asking func() Asked
	// Hashes of the keys, those that are to come first in front.
	Hashes []string
	// Wanted reports whether a key is still to be asked for.
	Wanted func(hash string) bool
	// Put takes a key in; nil is one that the origin does not have. asked is the moment
	// before the question, seq the last change that the key includes.
	Put func(hash string, key *store.Key, seq int64, asked Asked) error
	// Unread is called with a key that the origin cannot read. The others go on.
	Unread func(hash string)
}

// Run begins after a while that differs between nodes, and ends when all keys are asked
// for, no answer comes, or ctx ends. After each batch it rests for about as long as that
// took.
func (f Refill) Run(ctx context.Context) error {
	if err := backoff.Pause(ctx, rand.N(refillWithin)); err != nil {
		return err
	}
	for hashes := range slices.Chunk(f.Hashes, wire.MaxRefill) {
		wanted := slices.DeleteFunc(slices.Clone(hashes), func(hash string) bool { return !f.Wanted(hash) })
		if len(wanted) == 0 {
			continue
		}
		began := time.Now()
		b := refillBatch{Refill: f, retry: backoff.New(100*time.Millisecond, 5*time.Second)}
		if err := b.get(ctx, wanted, refillInternal); err != nil {
			return err
		}
		if err := backoff.Pause(ctx, rand.N(max(2*time.Since(began), 1))); err != nil {
			return err
		}
	}
	return nil
}

// refillBatch is a refill of some keys.
type refillBatch struct {
	Refill
	retry    *backoff.Backoff // after each question without an answer
	failures int              // keys at which the origin failed alone
}

// get asks for keys, tries times where the origin fails. It may fail at all of them because
// it cannot read one, so then each half is asked for by itself. The delays between the
// questions grow until one is answered, so that a fault of a moment leaves no key out.
func (b *refillBatch) get(ctx context.Context, hashes []string, tries int) error {
	req := wire.KeysRequest{Hashes: make([][]byte, len(hashes)), Partial: true}
	for i, hash := range hashes {
		req.Hashes[i] = []byte(hash)
	}
	var reply wire.KeysReply
	asked, err := b.ask(ctx, &req, &reply, tries)
	switch {
	case errors.Is(err, link.ErrInternal) && len(hashes) > 1:
		b.retry.Wait(ctx, err)
		half := len(hashes) / 2
		if err := b.get(ctx, hashes[:half], 1); err != nil {
			return err
		}
		return b.get(ctx, hashes[half:], 1)
	case errors.Is(err, link.ErrInternal) && b.failures < refillFailures:
		b.retry.Wait(ctx, err)
		b.failures++
		b.Unread(hashes[0])
		return nil
	case err != nil:
		return err
	}
	if len(reply.Keys) != len(hashes) {
		return fmt.Errorf("%w: origin answered with %d keys, not %d", host.ErrUnavailable, len(reply.Keys), len(hashes))
	}
	for i, hash := range hashes {
		if slices.Contains(reply.Unread, i) {
			b.Unread(hash)
			continue
		}
		if err := b.Put(hash, reply.Keys[i], reply.Seq, asked); err != nil {
			return err
		}
	}
	return nil
}

// ask asks until there is an answer, a few times: tries where the origin fails.
func (b *refillBatch) ask(ctx context.Context, req *wire.KeysRequest, reply *wire.KeysReply, tries int) (asked Asked, err error) {
	for try := 1; ; try++ {
		asked = b.Asking()
		within, cancel := context.WithTimeout(ctx, refillTimeout)
		*reply = wire.KeysReply{}
		err = b.Link.Ask(within, wire.VerbKeys, req, reply)
		cancel()
		failed := errors.Is(err, link.ErrInternal) && try >= tries
		if err == nil || !errors.Is(err, host.ErrUnavailable) || failed || try == refillTries || ctx.Err() != nil {
			break
		}
		b.retry.Wait(ctx, err)
	}
	if err == nil {
		b.retry.Reset()
	}
	return asked, err
}

// outdate makes refillAll ask for the held keys again.
func (r *replica) outdate() { r.outdated.Send() }

// refillAll asks for the held keys again each time that all of them became stale, until all
// are asked for, or ctx ends. An origin that cannot be reached behind a NATS server answers as
// one that predates refills does, so that one is asked again too.
func (r *replica) refillAll(ctx context.Context) {
	if len(r.Store.Keys.StaleNames(maxRefilled))+len(r.Store.Views.StaleNames(math.MaxInt)) > 0 { // from before a restart
		r.outdate()
	}
	retry := backoff.New(refillAgain, refillAgainMost)
	var again <-chan time.Time // nil: nothing is left to ask for
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.outdated:
		case <-again:
		}
		unread := 0 // each stays stale, so that it is asked for when a request needs it
		f := Refill{
			Link: r.Link, Asking: func() Asked { return r.asking(r.Store.Keys) }, Put: r.refilled, Unread: func(string) { unread++ },
			Hashes: r.Store.Keys.StaleNames(maxRefilled), Wanted: r.Store.Keys.IsStale,
		}
		err := f.Run(ctx)
		if err == nil {
			err = r.dropOrphans()
		}
		if again = nil; err == nil {
			retry.Reset()
		} else {
			again = time.After(retry.Next())
		}
		switch {
		case err == nil && unread > 0:
			r.Log.Warn("held keys are current again, but for those that the origin cannot read", "keys", len(f.Hashes), "unread", unread)
		case err == nil:
			r.Log.Info("held keys are current again", "keys", len(f.Hashes))
		case errors.Is(err, nats.ErrNoResponders):
			r.Log.Debug("the origin does not know how to refill", "err", err)
		case ctx.Err() == nil:
			r.Log.Warn("held keys are asked for as requests need them, and all again in a while", "err", err)
		}
	}
}

// dropOrphans drops the stale views of accounts of which no key is held that works: they
// may have been deleted, which nobody tells after a reset. A key that is stale may be a
// deleted account's too, and lets no request in.
func (r *replica) dropOrphans() error {
	accounts := make(map[string]bool)
	for _, rec := range r.Store.Keys.Records() {
		var key abi.Key
		if !rec.Stale() && key.Parse(readOnly(rec.Frame)) == nil && r.works(&key) {
			accounts[key.AccountID] = true
		}
	}
	for _, name := range r.Store.Views.StaleNames(math.MaxInt) {
		if _, account, _ := strings.Cut(name, "/"); !accounts[account] {
			if err := r.Store.Views.Drop(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// refilled takes in a key of a refill.
func (r *replica) refilled(hash string, key *store.Key, seq int64, asked Asked) error {
	if key == nil {
		return r.Store.Keys.Drop(hash)
	}
	_, err := r.putKey(hash, key, seq, asked)
	return err
}
