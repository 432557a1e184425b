package replication

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/host"
	"partneredge/store/local"
)

// TestRefusedKeysWaitForNoChanges: while a node catches up, a key that it does not hold
// and may not look up is refused at once: at the front, and in the sandbox.
func TestRefusedKeysWaitForNoChanges(t *testing.T) {
	store, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	cfg := Config{
		Store: store, ReadTimeout: time.Minute, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Counters: Counters{Keys: func(string, int) {}},
	}
	catching := newState(func() bool { return true }, cfg.Log)
	catching.connect() // and no answer comes
	r := &Replication{keys: keys{newReplica(t.Context(), cfg), &synchronizer{Config: cfg, state: catching}, nil}}
	r.keys.lookups = newLookups(r.keys.replica)
	r.keys.lookups.guesses.Each = 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found := r.FindKey(ctx, netip.MustParseAddr("192.0.2.7"), "svc_live_made_up")
	_, err = r.keys.AppendKey(found, nil, []byte("svc_live_made_up"))
	if ctx.Err() != nil {
		t.Fatal("it waited for the origin's changes")
	}
	if !errors.Is(err, host.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// TestFoundMeanwhile: a request that found a key not held asks no more for it when
// another's lookup has brought it since. There is no origin to ask.
func TestFoundMeanwhile(t *testing.T) {
	store, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	cfg := Config{
		Store: store, ReadTimeout: time.Minute, MaxStale: time.Hour, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Counters: Counters{Keys: func(string, int) {}},
	}
	away := newState(func() bool { return false }, cfg.Log)
	k := keys{newReplica(t.Context(), cfg), &synchronizer{Config: cfg, state: away}, nil}
	k.lookups = newLookups(k.replica)
	hash := local.KeyName([]byte("svc_live_brought"))
	if _, err := store.Keys.Put(hash, local.Record{Ref: "key_1", Frame: "frame", Fetched: time.Now()}, store.Keys.Epoch()); err != nil {
		t.Fatal(err)
	}
	for name, look := range map[string]func(context.Context, netip.Addr, string) (local.Record, error){"find": k.find, "guess": k.guess} {
		if rec, err := look(t.Context(), netip.Addr{}, hash); err != nil || rec.Frame != "frame" {
			t.Errorf("%s: %v, %v", name, rec, err)
		}
	}
}

// TestHeldKeysWaitForChanges: a request whose key is held goes on at once while the node
// is in sync, and waits while changes are being asked for, which may have revoked the
// key, and after the process was suspended.
func TestHeldKeysWaitForChanges(t *testing.T) {
	store, err := local.Open(local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	hash := local.KeyName([]byte("svc_live_held"))
	if _, err := store.Keys.Put(hash, local.Record{Ref: "key_1", Frame: "frame", Fetched: time.Now()}, store.Keys.Epoch()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{
			Store: store, ReadTimeout: time.Hour, MaxStale: time.Hour, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Counters: Counters{Keys: func(string, int) {}},
		}
		state := newState(func() bool { return true }, cfg.Log)
		r := &Replication{keys: keys{newReplica(t.Context(), cfg), &synchronizer{Config: cfg, state: state}, nil}}
		find := func() (done chan struct{}) {
			done = make(chan struct{})
			go func() {
				defer close(done)
				r.FindKey(t.Context(), netip.MustParseAddr("192.0.2.7"), "svc_live_held")
			}()
			synctest.Wait()
			return done
		}
		returned := func(done chan struct{}) bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		}
		for _, tt := range []struct {
			name  string
			begin func()
		}{
			{"connected", state.connect},
			{"suspended", func() { time.Sleep(2 * suspensionGap) }},
		} {
			tt.begin()
			done := find()
			if returned(done) {
				t.Errorf("%s: it did not wait for the changes", tt.name)
			}
			state.complete(state.presentAttempt())
			synctest.Wait()
			if !returned(done) {
				t.Errorf("%s: it waits though every change is known", tt.name)
			}
			if done := find(); !returned(done) {
				t.Errorf("%s: it waits in sync", tt.name)
			}
		}
	})
}
