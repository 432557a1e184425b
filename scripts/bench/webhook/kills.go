package main

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"partneredge/edge/backoff"
	"time"
)

const (
	killEvents = 20_000
	killCount  = 10
	killTime   = 20 * time.Second // at most, once all kills are done: on a busy machine there are fewer events
)

// kills writes events in a process that is killed again and again, and counts
// the accepted events that never arrive.
func (b *bench) kills(ctx context.Context, d database) error {
	address, drop, err := b.empty(ctx, d)
	if err != nil {
		return err
	}
	defer drop()
	account, err := prepare(ctx, address, b.targets("kills", 1))
	if err != nil {
		return err
	}
	arrived, stop := b.receiver.recorded()
	defer stop()
	work := order{URL: address, CAFile: b.receiver.CAFile, Account: account}
	accepted := map[string]bool{}
	began := time.Now()
	for kill := 0; kill < killCount || (len(accepted) < killEvents && time.Since(began) < killTime); kill++ {
		if err := writeAndKill(ctx, work, kill, accepted); err != nil {
			return err
		}
	}
	last, err := startChild(ctx, work)
	if err != nil {
		return err
	}
	for began = time.Now(); arrived.Missing(maps.Keys(accepted)) > 0 && time.Since(began) < 30*time.Second; {
		if err := backoff.Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	if err := last.end(); err != nil {
		return err
	}
	again, lost := arrived.Again(), arrived.Missing(maps.Keys(accepted))
	b.Printf("%s: %d events accepted, %d kills, %d lost, %d deliveries made again", d.kind, len(accepted), killCount, lost, again)
	b.Worst("lost_after_kills", float64(lost), "events", false)
	return nil
}

// writeAndKill starts a process that writes events, and kills it somewhere in the nth
// part of those that are still to be written. It adds what was accepted.
func writeAndKill(ctx context.Context, work order, nth int, accepted map[string]bool) error {
	left := killEvents - len(accepted)
	work.Events, work.Writers = max(left, 64), 32
	stopAt := work.Events
	if nth < killCount {
		part := max(2*left/(killCount-nth), 2)
		stopAt = min(1+rand.IntN(part), stopAt)
	}
	c, err := startChild(ctx, work)
	if err != nil {
		return err
	}
	for range stopAt {
		id, ok := <-c.lines
		if !ok {
			return errors.New("the process ended by itself")
		}
		accepted[id] = true
	}
	if err := c.Process.Kill(); err != nil {
		return err
	}
	for id := range c.lines {
		accepted[id] = true
	}
	_ = c.Wait() // killed
	return ctx.Err()
}

// prepare makes the account and subscriptions of a child.
func prepare(ctx context.Context, address string, targets []string) (account string, err error) {
	o, err := openOrigin(ctx, address)
	if err != nil {
		return "", err
	}
	defer o.close(ctx)
	err = o.populate(ctx, targets)
	return o.account, err
}
