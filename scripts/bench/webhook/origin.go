package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/webhook"
	"partneredge/store"
	"partneredge/store/central"
)

// origin has all that is measured: the database, the sender, and a live account.
type origin struct {
	db      *central.DB
	sender  atomic.Pointer[webhook.Sender]
	account string
	log     *slog.Logger
}

func openOrigin(ctx context.Context, url string) (*origin, error) {
	o := &origin{log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	var err error
	if o.db, err = central.Open(ctx, central.Config{URL: url, Log: o.log}); err != nil {
		return nil, err
	}
	o.db.OnCommit(func(c central.Commit) {
		if s := o.sender.Load(); s != nil && c.Deliveries > 0 {
			s.Wake()
		}
	})
	return o, nil
}

// fresh starts an origin over an empty database, with a subscription for each
// target; change, if given, changes its sender's configuration. end stops it and drops
// the database.
func (b *bench) fresh(ctx context.Context, d database, targets []string, change func(*webhook.Config)) (o *origin, end func(), err error) {
	address, drop, err := b.empty(ctx, d)
	if err != nil {
		return nil, nil, err
	}
	if o, err = openOrigin(ctx, address); err != nil {
		drop()
		return nil, nil, err
	}
	end = func() {
		o.close(ctx)
		drop()
	}
	if err = o.populate(ctx, targets); err == nil {
		err = o.start(ctx, b.receiver.caFile, change)
	}
	if err != nil {
		end()
	}
	return o, end, err
}

// populate makes the account and its subscriptions.
func (o *origin) populate(ctx context.Context, targets []string) error {
	a, err := o.db.CreateAccount(ctx, store.Account{Name: "bench", Mode: store.ModeLive, Agent: store.Agent{Email: "bench@example.com", FullName: "Bench"}})
	if err != nil {
		return err
	}
	o.account = a.ID
	for _, target := range targets {
		var secret [32]byte
		_, _ = rand.Read(secret[:])
		err := o.db.AddSubscription(ctx, store.Subscription{
			ID: store.NewID("whs", time.Now()), AccountID: a.ID, KeyID: store.NewID("key", time.Now()),
			Environment: store.Live, TargetURL: target, Events: []string{store.EventSentinelFired},
			Secret: hex.EncodeToString(secret[:]), CreatedAt: time.Now(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (o *origin) start(ctx context.Context, caFile string, change func(*webhook.Config)) error {
	c := webhook.Config{
		Store: o.db, CAFile: caFile, Log: o.log,
		Guard: webhook.NewGuard(webhook.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}),
	}
	if change != nil {
		change(&c)
	}
	s, err := webhook.Start(ctx, c)
	o.sender.Store(s)
	return err
}

func (o *origin) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var err error
	if s := o.sender.Load(); s != nil {
		err = s.Stop(ctx)
	}
	if err := errors.Join(err, o.db.Close()); err != nil {
		o.log.Warn("cannot stop", "err", err)
	}
}

// action makes the envelope about 256 bytes.
const action = "notified_agent_and_client"

// event writes one event.
func (o *origin) event(ctx context.Context) (id string, err error) {
	_, event, err := o.db.AddFiring(ctx, store.Firing{AccountID: o.account, Name: "price_drop", Data: []byte("{}"), Action: action})
	if err != nil {
		return "", err
	}
	return event.ID, nil
}

// load is events to write, as many at a time as writers, and how long they may take.
type load struct {
	events, writers int
	most            time.Duration // 0: any
}

// fire writes the events of a load and returns how many there was time for.
func (o *origin) fire(ctx context.Context, l load) (n int, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.writers)
	for began := time.Now(); n < l.events && (l.most == 0 || time.Since(began) < l.most); n++ {
		group.Go(func() error {
			_, err := o.event(ctx)
			return err
		})
	}
	return n, group.Wait()
}
