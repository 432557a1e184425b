package replication

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/node/replication/batch"
	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/local"
)

// TestAnswersOfBeforeAReset: the origin is restored from a backup, in which change numbers are
// lower, while earlier answers are on their way. None of them is taken for current, however
// the record was asked for and whether it is held.
func TestAnswersOfBeforeAReset(t *testing.T) {
	const keys, view = 3, "profile/acc_1"
	for _, held := range []bool{false, true} {
		store, err := local.Open(local.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		o := &restoredOrigin{store: store}
		r := newReplica(t.Context(), Config{
			Store: store, Link: linktest.Link{Answer: o.answer}, ReadTimeout: time.Minute, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		var hashes []string
		for i := range keys {
			hashes = append(hashes, local.KeyName([]byte{byte(i)}))
		}
		put := func(name string, records *local.Replica) {
			if _, err := records.Put(name, local.Record{Ref: name, Frame: "before", Seq: 900}, records.Epoch()); held && err != nil {
				t.Fatal(err)
			}
		}
		for name, ask := range map[string]func() (local.Record, error){
			"one key": func() (local.Record, error) {
				return r.fetch(t.Context(), wanted{name: keyPrefix + hashes[0]})
			},
			"many keys": func() (local.Record, error) {
				results := newLookups(r).ask(t.Context(), hashes)
				return results[keys-1].Value, results[keys-1].Err
			},
			"many keys, not asked for again": func() (rec local.Record, err error) {
				results := make([]batch.Result[local.Record], keys)
				if answered, err := newLookups(r).askTogether(t.Context(), hashes, results); !answered || err != nil {
					t.Errorf("%t, %v", answered, err)
				}
				if !results[0].Value.Stale() {
					t.Errorf("held %t: a key of many is current that was asked for before the reset", held)
				}
				return r.fetch(t.Context(), wanted{name: keyPrefix + hashes[0]})
			},
			"a refill": func() (local.Record, error) {
				b := refillBatch{
					Refill: Refill{Link: r.Link, Asking: func() Asked { return r.asking(store.Keys) }, Put: r.refilled},
					retry:  backoff.New(time.Millisecond, time.Millisecond),
				}
				if err := b.get(t.Context(), hashes, 1); err != nil {
					t.Error(err)
				}
				if rec, is := store.Keys.Get(hashes[0]); is && !rec.Stale() {
					t.Errorf("held %t: a key of a refill is current that was asked for before the reset", held)
				}
				return r.fetch(t.Context(), wanted{name: keyPrefix + hashes[0]})
			},
			"a view": func() (local.Record, error) { return r.fetch(t.Context(), wanted{name: view}) },
		} {
			for _, hash := range hashes {
				put(hash, store.Keys)
			}
			put(view, store.Views)
			o.asked.Store(0)
			rec, err := ask()
			if err != nil || rec.Stale() || rec.Seq != afterRestore {
				t.Errorf("%s, held %t: of change %d, stale %t, %v", name, held, rec.Seq, rec.Stale(), err)
			}
		}
	}
}

// Changes that an answer of restoredOrigin includes.
const (
	beforeRestore = 1000
	afterRestore  = 10
)

// restoredOrigin answers the first question as it was before it was restored from a backup,
// once the node knows of that.
type restoredOrigin struct {
	store *local.Store
	asked atomic.Int64
}

func (o *restoredOrigin) answer(_ context.Context, req, reply wire.Message) error {
	seq := int64(afterRestore)
	if o.asked.Add(1) == 1 {
		seq = beforeRestore
		if err := o.store.Reset(afterRestore-1, "his_2", false); err != nil {
			return err
		}
	}
	key := func(i int) *store.Key { return &store.Key{ID: fmt.Sprint("key_", i)} }
	switch reply := reply.(type) {
	case *wire.KeyReply:
		reply.Key, reply.Seq = key(0), seq
		if more := req.(*wire.KeyRequest).More; len(more) > 0 {
			for i := range 1 + len(more) {
				reply.Keys = append(reply.Keys, key(i))
			}
		}
	case *wire.KeysReply:
		reply.Seq = seq
		for i := range req.(*wire.KeysRequest).Hashes {
			reply.Keys = append(reply.Keys, key(i))
		}
	case *wire.ViewReply:
		reply.Account, reply.Seq = &store.Account{}, seq
	}
	return nil
}
