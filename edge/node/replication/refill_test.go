package replication

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
)

// failingOrigin answers a refill with all keys, or fails at it.
type failingOrigin struct {
	fails func(sinceFirst time.Duration, hashes [][]byte) bool
	first time.Time
	asked []time.Time
}

func (o *failingOrigin) Ask(_ context.Context, _ string, req, reply wire.Message) error {
	if o.asked = append(o.asked, time.Now()); len(o.asked) == 1 {
		o.first = time.Now()
	}
	hashes := req.(*wire.KeysRequest).Hashes
	if o.fails(time.Since(o.first), hashes) {
		return fmt.Errorf("%w: %w", host.ErrUnavailable, link.ErrInternal)
	}
	for range hashes {
		reply.(*wire.KeysReply).Keys = append(reply.(*wire.KeysReply).Keys, &store.Key{})
	}
	return nil
}

func askedNow() Asked { return Asked{At: time.Now()} }

// refillFrom refills a batch of keys from an origin, and returns how many came in and those
// that are left out.
func refillFrom(t *testing.T, o *failingOrigin) (came int, unread []string, err error) {
	t.Helper()
	f := Refill{
		Link: o, Asking: askedNow, Wanted: func(string) bool { return true },
		Put:    func(string, *store.Key, int64, Asked) error { came++; return nil },
		Unread: func(hash string) { unread = append(unread, hash) },
	}
	for n := range wire.MaxRefill {
		f.Hashes = append(f.Hashes, fmt.Sprint("key_", n))
	}
	err = f.Run(t.Context())
	return came, unread, err
}

// TestRefillOutlivesAFault: an origin fails at everything for some seconds, and no key is left
// out for it. A fault of a moment costs one more question.
func TestRefillOutlivesAFault(t *testing.T) {
	for _, c := range []struct {
		fault time.Duration
		most  int // questions
	}{{50 * time.Millisecond, 2}, {100 * time.Millisecond, 3}, {10 * time.Second, 30}} {
		synctest.Test(t, func(t *testing.T) {
			o := &failingOrigin{fails: func(since time.Duration, _ [][]byte) bool { return since < c.fault }}
			came, unread, err := refillFrom(t, o)
			if err != nil || came != wire.MaxRefill || len(unread) > 0 {
				t.Errorf("a fault of %v: %d keys came, %v did not, %v", c.fault, came, unread, err)
			}
			if len(o.asked) > c.most {
				t.Errorf("a fault of %v costs %d questions", c.fault, len(o.asked))
			}
		})
	}
}

// TestRefillGivesUp: an origin that goes on to fail is asked ever less often, and not for ever.
func TestRefillGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &failingOrigin{fails: func(time.Duration, [][]byte) bool { return true }}
		came, _, err := refillFrom(t, o)
		if !errors.Is(err, link.ErrInternal) || came > 0 {
			t.Errorf("%d keys came, %v", came, err)
		}
		if len(o.asked) > 40 {
			t.Errorf("%d questions", len(o.asked))
		}
		const soon = 8 // questions, after which the delays are of seconds
		for n := 1; n < len(o.asked); n++ {
			if d := o.asked[n].Sub(o.asked[n-1]); d < 50*time.Millisecond || n > soon && d < 2*time.Second {
				t.Errorf("question %d comes %v after the last", n+1, d)
			}
		}
	})
}

// TestRefillIsTakenUpAgain: a refill that an outage of ten minutes interrupts, whatever that
// looks like, or a restart, ends once the origin answers. Of a deleted account nothing is left.
func TestRefillIsTakenUpAgain(t *testing.T) {
	for name, fault := range map[string]error{
		"no answer comes": context.DeadlineExceeded, "nobody is there behind a NATS server": nats.ErrNoResponders,
	} {
		for _, restarts := range []bool{false, true} {
			held, err := local.Open(local.Config{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				kept := &store.Key{ID: "key_1", AccountID: "acc_kept", ExpiresAt: time.Now().Add(time.Hour)}
				began := time.Now()
				answer := func(_ context.Context, req, reply wire.Message) error {
					if time.Since(began) < 10*time.Minute {
						return fmt.Errorf("%w: %w", host.ErrUnavailable, fault)
					}
					r := reply.(*wire.KeysReply)
					r.Seq = 9
					for _, hash := range req.(*wire.KeysRequest).Hashes {
						r.Keys = append(r.Keys, map[string]*store.Key{"kept": kept}[string(hash)])
					}
					return nil
				}
				r := newReplica(ctx, Config{Store: held, Link: linktest.Link{Answer: answer}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
				for hash, key := range map[string]*store.Key{"kept": kept, "gone": {ID: "key_2", AccountID: "acc_gone", ExpiresAt: kept.ExpiresAt}} {
					_, err := r.putKey(hash, key, 1, r.asking(held.Keys))
					if name := "profile/" + key.AccountID; err == nil && !restarts {
						_, err = held.Views.Put(name, local.Record{Ref: name, Frame: "Dana", Seq: 1}, held.Views.Epoch())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if err := held.Reset(9, "his_2", false); err != nil {
					t.Fatal(err)
				}
				if !restarts {
					r.outdate()
				}
				var running sync.WaitGroup
				running.Go(func() { r.refillAll(ctx) })
				time.Sleep(20 * time.Minute)
				stop()
				running.Wait()
				_, _, views := held.Views.Find("profile/acc_gone")
				if stale := held.Keys.StaleNames(10); len(stale) > 0 || held.Keys.Len() != 1 || views {
					t.Errorf("%s, restart %t: %d keys are held, stale are %v, views of a deleted account: %t", name, restarts, held.Keys.Len(), stale, views)
				}
			})
		}
	}
}

// TestRefillFindsTheUnread: of an origin that fails wherever it cannot read a key, those keys
// alone are left out.
func TestRefillFindsTheUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := map[string]bool{"key_0": true, "key_7": true, fmt.Sprint("key_", wire.MaxRefill-1): true}
		o := &failingOrigin{fails: func(_ time.Duration, hashes [][]byte) bool {
			for _, hash := range hashes {
				if bad[string(hash)] {
					return true
				}
			}
			return false
		}}
		came, unread, err := refillFrom(t, o)
		if err != nil || came != wire.MaxRefill-len(bad) || len(unread) != len(bad) {
			t.Errorf("%d keys came, %v did not, %v", came, unread, err)
		}
		for _, hash := range unread {
			if !bad[hash] {
				t.Errorf("%s is left out", hash)
			}
		}
	})
}

// TestRefillCountsFromTheQuestion: what an answer holds is as old as the question, so each
// key is taken in with that time, however long the answer takes.
func TestRefillCountsFromTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &failingOrigin{fails: func(time.Duration, [][]byte) bool {
			time.Sleep(time.Second)
			return false
		}}
		f := Refill{
			Link: o, Asking: askedNow, Hashes: []string{"key_0", "key_1"}, Wanted: func(string) bool { return true },
			Put: func(hash string, _ *store.Key, _ int64, asked Asked) error {
				if !asked.At.Equal(o.first) {
					t.Errorf("%s counts as of %v after the question", hash, asked.At.Sub(o.first))
				}
				return nil
			},
		}
		if err := f.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// answerOf is an origin that answers a refill with so many keys.
type answerOf int

func (n answerOf) Ask(_ context.Context, _ string, _, reply wire.Message) error {
	reply.(*wire.KeysReply).Keys = make([]*store.Key, n)
	return nil
}

// TestRefillOfAnotherNumber: an answer of more or fewer keys than were asked for says of none
// which one it is, so nothing of it is taken in.
func TestRefillOfAnotherNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []answerOf{0, 2, 4} {
			f := Refill{
				Link: n, Asking: askedNow, Hashes: []string{"key_0", "key_1", "key_2"}, Wanted: func(string) bool { return true },
				Put: func(hash string, _ *store.Key, _ int64, _ Asked) error {
					t.Errorf("of %d keys %s is taken in", n, hash)
					return nil
				},
			}
			if err := f.Run(t.Context()); !errors.Is(err, host.ErrUnavailable) {
				t.Errorf("an answer of %d keys for three: %v", n, err)
			}
		}
	})
}
