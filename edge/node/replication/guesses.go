package replication

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/edge/node/replication/batch"
	"partneredge/edge/places"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store/local"
	"partneredge/wasm/network"
)

// Bounds of lookups under way of keys that are not held. Anybody who makes keys up can
// cause them. Beyond these bounds a request is refused at once.
const (
	maxGuesses          = 128 // half of what the link takes: the rest is for keys and views that are held
	maxGuessesOfNetwork = 16  // of a client's /24, or /48 of IPv6
)

// lookup is the outcome of a lookup that was made before the request had a sandbox.
type lookup struct {
	hash string
	err  error
}

type lookupKey struct{}

// FindKey looks up the key of a request, so that no sandbox is held while the origin
// is asked or changes are caught up with. The modules then find the key held, or,
// in the context returned, why it is not. Of a client that is locked out nothing is
// looked up, since its key is not looked at.
func (r *Replication) FindKey(ctx context.Context, client netip.Addr, token string) context.Context {
	if r.keys.Store.Lockouts.Lockout(client.String()) > 0 {
		return ctx
	}
	hash := local.KeyName([]byte(token))
	if r.keys.sync.state.settling() == nil { // as nearly always: no timer is needed
		if _, current := r.keys.current(hash); current {
			return ctx
		}
	}
	within, cancel := context.WithTimeout(ctx, answerTimeout+r.keys.ReadTimeout)
	defer cancel()
	if _, held := r.keys.Store.Keys.Get(hash); !held {
		// Nothing of it can be out of date, so a made-up key does not wait for changes,
		// here or in a sandbox.
		_, err := r.keys.find(within, client, hash)
		ctx = context.WithValue(ctx, lookupKey{}, &lookup{hash, err})
		if err != nil {
			return ctx
		}
	}
	r.keys.sync.state.wait(within)
	if _, current := r.keys.current(hash); current {
		return ctx
	}
	_, err := r.keys.find(within, client, hash)
	return context.WithValue(ctx, lookupKey{}, &lookup{hash, err})
}

// Bounds of the questions for keys that are not held. Few leave at once. A flood of
// made-up keys fills a hundred messages a second and four a round trip, whatever its rate,
// and each of its keys waits a little longer than the round trip.
const (
	guessesAlone = 4 // questions under way beside which a key is asked for at once
	guessesEvery = 10 * time.Millisecond
	guessesMost  = 1 + wire.MaxMoreKeys
)

// newLookups returns what asks the origin for keys that are not held.
func newLookups(r *replica) *lookups {
	l := &lookups{replica: r, guesses: places.Places[netip.Prefix]{All: maxGuesses, Each: maxGuessesOfNetwork}}
	l.batches = batch.Group[local.Record]{Ask: l.ask, Alone: guessesAlone, Every: guessesEvery, Most: guessesMost}
	return l
}

// lookups asks the origin for keys that are not held, many in a question when many are
// looked up.
type lookups struct {
	*replica
	guesses places.Places[netip.Prefix] // under way
	batches batch.Group[local.Record]
	// singly is the time, in microseconds, until which keys are asked for one by one, since
	// an origin that predates such questions answered.
	singly atomic.Int64
}

// singlyFor passes after an answer of an older origin before many keys are asked for in one
// question again.
const singlyFor = time.Minute

// guess fetches a key that is not held, for a client. If the client is gone before the answer
// comes, an unknown key is counted here, as no gate will: else one that hangs up each time
// could guess for ever.
func (k keys) guess(ctx context.Context, client netip.Addr, hash string) (local.Record, error) {
	var left abandoned
	rec, err := k.lookups.batches.Do(ctx, batch.Request[local.Record]{
		Name: hash,
		Life: tracing.WithSpanOf(k.ctx, ctx),
		Enter: func() (func(batch.Result[local.Record]), *batch.Result[local.Record]) {
			if rec, current := k.current(hash); current { // the lookup before this one brought it
				return nil, &batch.Result[local.Record]{Value: rec}
			}
			leave, ok := k.lookups.guesses.Take(network.Site(client))
			if !ok {
				return nil, &batch.Result[local.Record]{Err: errNoRoom}
			}
			return func(at batch.Result[local.Record]) {
				leave()
				if errors.Is(at.Err, host.ErrNotFound) && left.note(&left.unknown) {
					k.countFailure(client)
				}
			}, nil
		},
	})
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", host.ErrUnavailable, err)
		if left.note(&left.gone) {
			k.countFailure(client)
		}
	}
	return rec, err
}

// abandoned notes that the client of a lookup is gone, and that the key is unknown.
type abandoned struct {
	mu            sync.Mutex
	gone, unknown bool
}

// note notes one of the two, and reports whether both are so now.
func (a *abandoned) note(one *bool) (both bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*one = true
	return a.gone && a.unknown
}

func (k keys) countFailure(client netip.Addr) {
	if _, err := k.Store.Lockouts.Failure(client.String()); err != nil {
		k.Log.Warn("cannot keep a lockout", "err", err)
	}
}

var errNoRoom = fmt.Errorf("%w: too many keys are being looked up", host.ErrUnavailable)

// ask asks for keys, by their hashes.
func (l *lookups) ask(ctx context.Context, hashes []string) []batch.Result[local.Record] {
	ctx, cancel := context.WithTimeout(ctx, l.ReadTimeout)
	defer cancel()
	results := make([]batch.Result[local.Record], len(hashes))
	if len(hashes) == 1 || l.Now().UnixMicro() < l.singly.Load() {
		l.askSingly(ctx, hashes, results, func(int) bool { return true })
		return results
	}
	answered, err := l.askTogether(ctx, hashes, results)
	switch {
	case err != nil:
		for i := range results {
			results[i].Err = err
		}
	case !answered:
		l.singly.Store(l.Now().Add(singlyFor).UnixMicro())
		l.askSingly(ctx, hashes, results, func(int) bool { return true })
	default:
		// A change may have overtaken the answer.
		l.askSingly(ctx, hashes, results, func(i int) bool { return results[i].Err == nil && results[i].Value.Stale() })
	}
	return results
}

// askSingly asks for each of those keys that are selected in a question of its own.
func (l *lookups) askSingly(ctx context.Context, hashes []string, results []batch.Result[local.Record], selects func(i int) bool) {
	var all sync.WaitGroup
	for i, hash := range hashes {
		if selects(i) {
			all.Go(func() { results[i].Value, results[i].Err = l.fetchFresh(ctx, wanted{name: keyPrefix + hash}) })
		}
	}
	all.Wait()
}

// askTogether asks for keys in one question. It returns false if the origin answered for
// the first alone, as one does that does not know such questions.
func (l *lookups) askTogether(ctx context.Context, hashes []string, results []batch.Result[local.Record]) (answered bool, err error) {
	epoch, asked := l.Store.Negatives.Epoch(), l.asking(l.Store.Keys)
	req := wire.KeyRequest{Hash: []byte(hashes[0]), Bare: true, More: make([][]byte, len(hashes)-1), Partial: true}
	for i, hash := range hashes[1:] {
		req.More[i] = []byte(hash)
	}
	var reply wire.KeyReply
	err = l.Link.Ask(ctx, wire.VerbKey, &req, &reply)
	switch {
	case errors.Is(err, host.ErrNotFound), err == nil && reply.Key != nil && reply.Keys == nil:
		return false, nil
	case err != nil:
		return false, err
	case len(reply.Keys) != len(hashes):
		return false, fmt.Errorf("%w: origin answered with %d keys, not %d", host.ErrUnavailable, len(reply.Keys), len(hashes))
	}
	for i, hash := range hashes {
		switch key := reply.Keys[i]; {
		case slices.Contains(reply.Unread, i):
			results[i].Err = errUnread
		case key == nil:
			results[i].Err = l.unknownKey(hash, epoch, host.ErrNotFound)
		default:
			results[i].Value, results[i].Err = l.putKey(hash, key, reply.Seq, asked)
		}
	}
	return true, nil
}

// errUnread is the error of a key that the origin has and cannot read.
var errUnread = fmt.Errorf("%w: origin cannot read the key", host.ErrUnavailable)
