package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/webhook"
	"partneredge/scripts/bench/harness"
	"partneredge/scripts/bench/hooks"
)

// order names the database and the endpoint of a child, and the events that it
// writes. The child works until its input ends.
type order struct {
	URL, CAFile, Account string
	Events, Writers      int // to write; each one's id is printed once it is accepted
}

// runChild is an origin in a process of its own, to be killed or weighed. It
// prints "ready" when it delivers.
func runChild(ctx context.Context, what order, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	o, err := openOrigin(context.Background(), what.URL)
	if err != nil {
		return err
	}
	o.account = what.Account
	if err := o.start(context.Background(), webhook.Config{
		CAFile: what.CAFile, Timeout: 2 * time.Second, Lease: 4 * time.Second, // what a killed process held is soon taken up
	}); err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	var writers errgroup.Group
	writers.SetLimit(what.Writers)
	for n := 0; n < what.Events && ctx.Err() == nil; n++ {
		writers.Go(func() error {
			if id, err := hooks.Fire(ctx, o.db, o.account); err == nil {
				fmt.Fprintln(out, id)
			}
			return nil
		})
	}
	_ = writers.Wait() // none fails: only accepted events count
	<-ctx.Done()
	o.close(context.Background())
	return nil
}

// child is a process of runChild.
type child struct {
	*harness.Child
	lines chan string // closed at its end
}

func startChild(ctx context.Context, what order) (c *child, err error) {
	c = &child{lines: make(chan string, 1<<16)}
	if c.Child, err = harness.StartChild(ctx, what); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		for lines := bufio.NewScanner(c.Out); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	if first := <-c.lines; first != "ready" {
		return nil, errors.Join(errors.New("the child did not start"), c.Wait())
	}
	return c, nil
}

// end lets the child stop by itself.
func (c *child) end() error {
	_ = c.In.Close()
	for range c.lines {
	}
	return c.Wait()
}
