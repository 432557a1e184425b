package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

const (
	killEvents = 20_000
	killCount  = 10
)

// kills writes events in a process that is killed again and again, and counts
// the accepted events that never arrive.
func (b *bench) kills(ctx context.Context, d database) error {
	dir, err := os.MkdirTemp(b.Dir, d.kind)
	if err != nil {
		return err
	}
	address, drop, err := d.open(ctx, dir)
	if err != nil {
		return err
	}
	defer drop()
	account, err := prepare(ctx, address, b.targets("kills", 1))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	arrived := map[string]int{}
	each := func(_, event string, _ time.Time) {
		mu.Lock()
		defer mu.Unlock()
		arrived[event]++
	}
	b.receiver.each.Store(&each)
	defer b.receiver.each.Store(nil)

	accepted := map[string]bool{}
	for kill := 0; len(accepted) < killEvents || kill < killCount; kill++ {
		left := killEvents - len(accepted)
		c, err := startChild(ctx, order{URL: address, CAFile: b.receiver.caFile, Account: account, Events: max(left, 64), Writers: 32})
		if err != nil {
			return err
		}
		stopAt := max(left, 64)
		if kill < killCount { // somewhere in this part of the events
			part := max(2*left/(killCount-kill), 2)
			stopAt = min(1+rand.IntN(part), stopAt)
		}
		for range stopAt {
			id, ok := <-c.lines
			if !ok {
				return errors.New("the process ended by itself")
			}
			accepted[id] = true
		}
		if err := c.cmd.Process.Kill(); err != nil {
			return err
		}
		for id := range c.lines {
			accepted[id] = true
		}
		_ = c.cmd.Wait() // killed
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	c, err := startChild(ctx, order{URL: address, CAFile: b.receiver.caFile, Account: account})
	if err != nil {
		return err
	}
	lost := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for id := range accepted {
			if arrived[id] == 0 {
				n++
			}
		}
		return n
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); lost() > 0 && time.Since(began) < 30*time.Second && ctx.Err() == nil; {
		<-tick.C
	}
	if err := c.end(); err != nil {
		return err
	}
	again := 0
	for _, n := range arrived {
		again += n - 1
	}
	b.Printf("%s: %d events accepted, %d kills, %d lost, %d deliveries made again", d.kind, len(accepted), killCount, lost(), again)
	b.Worst("lost_after_kills", float64(lost()), "events", false)
	return nil
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
