package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/webhook"
	"partneredge/scripts/bench/hooks"
	"partneredge/store/central"
)

// origin has all that is measured: the database, the sender, and a live account.
type origin struct {
	db      *central.DB
	sender  *webhook.Sender // nil: it is not started
	account string
	log     *slog.Logger
}

func openOrigin(ctx context.Context, url string) (*origin, error) {
	o := &origin{log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	var err error
	o.db, err = central.Open(ctx, central.Config{URL: url, Log: o.log})
	return o, err
}

// fresh starts an origin over an empty database, with a subscription for each
// target, and its sender by c. end stops it and drops the database.
func (b *bench) fresh(ctx context.Context, d database, targets []string, c webhook.Config) (o *origin, end func(), err error) {
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
		c.CAFile = b.receiver.CAFile
		err = o.start(ctx, c)
	}
	if err != nil {
		end()
	}
	return o, end, err
}

// populate makes the account and its subscriptions.
func (o *origin) populate(ctx context.Context, targets []string) (err error) {
	if o.account, err = hooks.Account(ctx, o.db); err != nil {
		return err
	}
	for _, target := range targets {
		if err := hooks.Subscribe(ctx, o.db, o.account, target); err != nil {
			return err
		}
	}
	return nil
}

func (o *origin) start(ctx context.Context, c webhook.Config) (err error) {
	c.Log = o.log
	o.sender, err = hooks.StartSender(ctx, o.db, c)
	return err
}

func (o *origin) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var err error
	if o.sender != nil {
		err = o.sender.Stop(ctx)
	}
	if err := errors.Join(err, o.db.Close()); err != nil {
		o.log.Warn("cannot stop", "err", err)
	}
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
			_, err := hooks.Fire(ctx, o.db, o.account)
			return err
		})
	}
	return n, group.Wait()
}
