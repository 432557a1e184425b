package replication

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"partneredge/edge/logging"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/tracing"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/store/signal"
	"partneredge/wasm/abi"
)

// replica fetches records from the origin and keeps them in the local store.
// However many requests need a record, it is asked for once at a time.
type replica struct {
	Config
	ctx      context.Context // of fetches
	flights  singleflight.Group
	renewals chan string   // names of records to fetch because they changed
	outdated signal.Signal // all records became stale
	warnings *logging.Limiter
	// unanswered is whether the last question for a view or a page got no answer in time,
	// apart for each connection: a question that was lost with one says nothing of the next.
	unanswered atomic.Pointer[atomic.Bool]
}

// wanted names a record to fetch, and for a view the hash of the key in whose name
// it is asked for.
type wanted struct{ name, keyHash string }

const (
	// renewers bounds the changed records that are asked for at once. A record
	// that a request needs does not wait for them.
	renewers = 4
	// maxRenewals bounds the changed records that wait for a renewer. Others are
	// asked for when a request needs them.
	maxRenewals = 4096
)

// keyPrefix comes before a key's hash in the name of its record; the names of
// views are those of viewName.
const keyPrefix = "key/"

func viewName(kind store.ChangeKind, account string) string { return string(kind) + "/" + account }

// newReplica returns a replica whose fetches end with ctx.
func newReplica(ctx context.Context, cfg Config) *replica {
	r := &replica{
		Config: cfg, ctx: ctx, renewals: make(chan string, maxRenewals), outdated: signal.New(), warnings: logging.New(cfg.Log),
	}
	r.disconnect()
	return r
}

// disconnect is called each time that the connection ends.
func (r *replica) disconnect() { r.unanswered.Store(new(atomic.Bool)) }

// renewAll fetches changed records until the replica's context ends.
func (r *replica) renewAll() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case name := <-r.renewals:
			if err := r.renewNow(name); err != nil {
				r.Log.Debug("changed record not renewed", "err", err)
			}
		}
	}
}

// renewNow fetches a changed record. A view is asked for in the name of the key that
// it was asked for last, while that is valid; else it waits for a request.
func (r *replica) renewNow(name string) error {
	w := wanted{name: name}
	if !strings.HasPrefix(name, keyPrefix) {
		_, rec, held := r.Store.Views.Find(name)
		if !held || !r.valid(rec.By) {
			return nil
		}
		w.keyHash = rec.By
	}
	_, err := r.fetch(r.ctx, w)
	return err
}

// valid reports whether a key is held and has not ended.
func (r *replica) valid(hash string) bool {
	rec, held := r.Store.Keys.Get(hash)
	var key abi.Key
	if !held || key.Parse(readOnly(rec.Frame)) != nil {
		return false
	}
	return r.works(&key)
}

// works reports whether a key has not ended.
func (r *replica) works(key *abi.Key) bool {
	now := r.Now().UnixMicro()
	return key.Revoked == 0 && key.Expires > now && (key.GraceUntil == 0 || key.GraceUntil > now)
}

// keyHash returns the hash of the principal's key, which was held when the gate asked
// for it. ErrUnavailable if others have taken its place since.
func (c Config) keyHash(p abi.Principal) (string, error) {
	hash, _, held := c.Store.Keys.Find(p.KeyID)
	if !held {
		return "", fmt.Errorf("%w: the request's key is not held any more", host.ErrUnavailable)
	}
	return hash, nil
}

// note takes in changes and returns, in order, the places of those that concern held
// records, for each of which apply is called. A node holds few of all records, so most
// changes end here.
func (r *replica) note(changes []store.Change) (concerned []int) {
	anyKey := false
	concerned = r.Store.Keys.Note(len(changes), func(i int) (string, int64, bool) {
		c := &changes[i]
		isKey := c.Kind == store.ChangeKey
		anyKey = anyKey || isKey
		return c.Ref, c.Seq, isKey
	})
	concerned = append(concerned, r.Store.Views.Note(len(changes), func(i int) (string, int64, bool) {
		c := &changes[i]
		if c.Kind == store.ChangeKey {
			return "", 0, false
		}
		return viewName(c.Kind, c.Ref), c.Seq, true
	})...)
	if anyKey {
		r.Store.Negatives.Clear()
	}
	slices.Sort(concerned)
	return concerned
}

// apply makes a held record that the change concerns stale, and a revoked key
// refused, at once; then the record is renewed. Of a deleted account nothing is kept.
func (r *replica) apply(change store.Change) error {
	if change.Kind != store.ChangeKey {
		name := viewName(change.Kind, change.Ref)
		_, concerned, err := r.Store.Views.Change(name, change.Seq, nil)
		switch {
		case change.Gone:
			return errors.Join(err, r.Store.Views.Drop(name))
		case err == nil && concerned:
			r.renew(name)
		}
		return err
	}
	var replace func(string) string
	if change.Gone {
		replace = revokedFrame
	}
	hash, concerned, err := r.Store.Keys.Change(change.Ref, change.Seq, replace)
	if err == nil && concerned && !change.Gone {
		r.renew(keyPrefix + hash)
	}
	return err
}

func (r *replica) renew(name string) {
	select {
	case r.renewals <- name:
	default:
	}
}

// fetch asks the origin for a record, unless it is being asked for already, and waits
// until the record is here or ctx ends.
func (r *replica) fetch(ctx context.Context, w wanted) (local.Record, error) {
	life := tracing.WithSpanOf(r.ctx, ctx) // before DoChan: ctx is this goroutine's alone
	landed := r.flights.DoChan(w.name+" "+w.keyHash, func() (any, error) {
		// Others may wait for it: it does not end with the request that began it.
		within, cancel := context.WithTimeout(life, r.ReadTimeout)
		defer cancel()
		return r.fetchFresh(within, w)
	})
	select {
	case result := <-landed:
		if result.Err != nil {
			return local.Record{}, result.Err
		}
		return result.Val.(local.Record), nil
	case <-ctx.Done():
		return local.Record{}, fmt.Errorf("%w: %w", host.ErrUnavailable, ctx.Err())
	}
}

// fetchFresh asks the origin for a record, and again when a change overtook the answer.
func (r *replica) fetchFresh(ctx context.Context, w wanted) (rec local.Record, err error) {
	const tries = 4
	for range tries {
		if hash, isKey := strings.CutPrefix(w.name, keyPrefix); isKey {
			rec, err = r.fetchKey(ctx, hash)
		} else {
			rec, err = r.fetchView(ctx, w)
		}
		if err != nil || !rec.Stale() {
			return rec, err
		}
	}
	return rec, fmt.Errorf("%w: record changes faster than it can be read", host.ErrUnavailable)
}

func (r *replica) fetchKey(ctx context.Context, hash string) (local.Record, error) {
	epoch, asked := r.Store.Negatives.Epoch(), r.asking(r.Store.Keys)
	var reply wire.KeyReply
	err := r.Link.Ask(ctx, wire.VerbKey, &wire.KeyRequest{Hash: []byte(hash), Bare: true}, &reply)
	switch {
	case errors.Is(err, host.ErrNotFound):
		return local.Record{}, r.unknownKey(hash, epoch, err)
	case err != nil:
		return local.Record{}, err
	case !hasHash(reply.Key, hash):
		return local.Record{}, fmt.Errorf("%w: origin answered with another key", host.ErrUnavailable)
	}
	return r.putKey(hash, reply.Key, reply.Seq, asked)
}

// hasHash reports whether an answer's key can be the one with a hash. The origin answers
// without the hash; an older one sends it.
func hasHash(key *store.Key, hash string) bool {
	return key != nil && (key.Hash == [32]byte{} || string(key.Hash[:]) == hash)
}

// unknownKey remembers that the origin has no such key, and returns notFound unless
// that fails. epoch is that of the negatives before the origin was asked.
func (r *replica) unknownKey(hash string, epoch uint64, notFound error) error {
	r.Store.Negatives.Add([32]byte([]byte(hash)), epoch)
	return dropped(r.Store.Keys, hash, notFound)
}

// Asked is the moment before a question to the origin, which its answer is as old as.
type Asked struct {
	At    time.Time
	Epoch int64 // of the records that the answer is kept in
}

// asking returns the moment of a question whose answer is kept in records.
func (r *replica) asking(records *local.Replica) Asked {
	return Asked{At: r.Now(), Epoch: records.Epoch()}
}

// putKey keeps a key that the origin sent.
func (r *replica) putKey(hash string, key *store.Key, seq int64, asked Asked) (local.Record, error) {
	rec := local.Record{Ref: key.ID, Frame: string(keyFrame(key)), Seq: seq, Fetched: asked.At}
	return r.Store.Keys.Put(hash, rec, asked.Epoch)
}

func (r *replica) fetchView(ctx context.Context, w wanted) (local.Record, error) {
	kind, account, _ := strings.Cut(w.name, "/")
	asked := r.asking(r.Store.Views)
	reply, err := r.askView(ctx, wire.ViewRequest{AccountID: account, KeyHash: []byte(w.keyHash), Kind: store.ChangeKind(kind)})
	// The account may have been deleted while an earlier answer was on its way. If only
	// the key has ended, the account's others ask for the view again.
	if errors.Is(err, host.ErrNotFound) || errors.Is(err, link.ErrRefused) {
		return local.Record{}, dropped(r.Store.Views, w.name, err)
	}
	if err != nil {
		return local.Record{}, err
	}
	var frame []byte
	switch store.ChangeKind(kind) {
	case store.ChangeProfile:
		frame = profileFrame(reply.Account)
	case store.ChangeInsights:
		frame = insightsFrame(reply.Insights, reply.History)
	case store.ChangeFirings:
		frame = firingsFrame(reply.Firings, reply.More)
	}
	rec := local.Record{Ref: w.name, Frame: string(frame), Seq: reply.Seq, Fetched: asked.At, By: w.keyHash}
	return r.Store.Views.Put(w.name, rec, asked.Epoch)
}

// askView asks the origin for a view and keeps nothing of it. A question that the origin finds
// invalid is the node's fault or the origin's, never a module's: the view is unavailable.
func (r *replica) askView(ctx context.Context, req wire.ViewRequest) (*wire.ViewReply, error) {
	var reply wire.ViewReply
	unanswered := r.unanswered.Load()
	err := r.Link.Ask(ctx, wire.VerbView, &req, &reply)
	if !errors.Is(err, context.Canceled) { // then the client hung up
		unanswered.Store(errors.Is(err, context.DeadlineExceeded))
	}
	if errors.Is(err, link.ErrInvalid) {
		r.warnings.Error("invalid view", "origin finds a question for a view invalid", "kind", req.Kind, "account", req.AccountID, "err", err)
		return nil, fmt.Errorf("%w: %v", host.ErrUnavailable, err)
	}
	if err != nil {
		return nil, err
	}
	if req.Kind == store.ChangeProfile && reply.Account == nil {
		return nil, fmt.Errorf("%w: origin answered without the account", host.ErrUnavailable)
	}
	return &reply, nil
}

// dropped drops a record that the origin does not have, and returns notFound
// unless dropping fails.
func dropped(records *local.Replica, name string, notFound error) error {
	if err := records.Drop(name); err != nil {
		return err
	}
	return notFound
}
