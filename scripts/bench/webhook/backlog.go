package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"partneredge/edge/backoff"
	"partneredge/scripts/bench/harness"
)

const (
	backlogSubscriptions = 100
	backlogEvents        = 10_000
	backlogWrites        = 15 * time.Second // at most: on a busy machine fewer wait
	backlogTime          = 6 * time.Second
)

// backlog weighs a process that has up to a million deliveries waiting, half of them
// for endpoints that hang and half for such as refuse connections.
func (b *bench) backlog(ctx context.Context, d database) error {
	address, drop, err := b.empty(ctx, d)
	if err != nil {
		return err
	}
	defer drop()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	dead := closed.Addr().String()
	_ = closed.Close()
	targets := b.targets("hang", backlogSubscriptions)
	for i := range targets {
		if i%2 == 0 {
			targets[i] = fmt.Sprintf("https://%s/%d", dead, i)
		}
	}
	o, err := openOrigin(ctx, address)
	if err != nil {
		return err
	}
	err = o.populate(ctx, targets)
	began, waiting := time.Now(), 0
	if err == nil {
		waiting, err = o.fire(ctx, load{backlogEvents, 64, backlogWrites}) // there is no sender yet
	}
	o.close(ctx)
	if err != nil {
		return err
	}
	written := time.Since(began)
	c, err := startChild(ctx, order{URL: address, CAFile: b.receiver.CAFile, Account: o.account})
	if err != nil {
		return err
	}
	most, err := harness.MostBeside(20*time.Millisecond, func() error { return backoff.Pause(ctx, backlogTime) },
		func() (float64, error) { return harness.ResidentMiB(c.Process.Pid) })
	if err != nil {
		return err
	}
	if err := c.Process.Kill(); err != nil {
		return err
	}
	for range c.lines {
	}
	_ = c.Wait() // killed
	b.Printf("%s: %d deliveries waiting (written in %.1f s), %.0f MiB resident at most",
		d.kind, backlogSubscriptions*waiting, written.Seconds(), most)
	b.Worst("backlog_rss_mb", most, "MiB", false)
	return nil
}
