package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"partneredge/edge/gotuning"
	"partneredge/edge/node/replication"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/scripts/bench/harness"
	"partneredge/store/local"
)

// followerOrder says what a follower follows, and where its state is.
type followerOrder struct{ URL, Credentials, Dir string }

// order is sent to a child process of the bench: follow an origin, or listen without an
// answer, until the input ends.
type order struct {
	Follow *followerOrder
	Deaf   int // ports at which it answers nothing
}

// runChild carries an order out.
func runChild(ctx context.Context, what order, in io.Reader, out io.Writer) error {
	if what.Follow == nil {
		return runDeaf(what.Deaf, in, out)
	}
	return runFollower(ctx, *what.Follow, in, out)
}

// followerReport holds a follower's own figures.
type followerReport struct {
	Seq     int64         // last change that it has applied
	Current time.Duration // from its start until it knew every change, 0 before
	CPU     time.Duration // processor time of its process
	Asks    int64         // how often it has asked for changes
}

// runFollower runs a node's replica and link in a process of its own until in ends. For
// each line of in it prints a report.
func runFollower(ctx context.Context, what followerOrder, in io.Reader, out io.Writer) (err error) {
	defer gotuning.Start(ctx)() // as a node is
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := local.Open(local.Config{Dir: what.Dir, Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var asks, current atomic.Int64
	l, err := link.New(link.Config{
		URL: what.URL, Credentials: what.Credentials, Region: region, Log: log,
		Observe: func(verb, _ string, _ time.Duration) {
			if verb == wire.VerbChanges {
				asks.Add(1)
			}
		},
	})
	if err != nil {
		return err
	}
	defer l.Close()
	ignore := func(string, int) {}
	r, err := replication.New(replication.Config{
		Store: store, Link: l, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, MaxStale: time.Hour,
		NoteAge: func(context.Context, time.Duration) {}, Log: log, Now: time.Now,
		Counters: replication.Counters{Keys: ignore, Views: ignore, Leads: ignore, Reports: ignore},
	})
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.Start(); err != nil {
		return err
	}
	defer r.Stop()
	go func() {
		select {
		case <-r.Current():
			current.Store(int64(time.Since(began)))
		case <-ctx.Done():
		}
	}()
	write := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		report := followerReport{Seq: store.Cursor().Seq, Current: time.Duration(current.Load()), CPU: harness.OwnCPUTime(), Asks: asks.Load()}
		if err := write.Encode(report); err != nil {
			return err
		}
	}
	return nil
}

// follower is a process that runs runFollower.
type follower struct {
	*harness.Child
	reports *json.Decoder
}

// follow starts a follower.
func follow(ctx context.Context, what followerOrder) (*follower, error) {
	child, err := harness.StartChild(ctx, order{Follow: &what})
	if err != nil {
		return nil, err
	}
	return &follower{child, json.NewDecoder(child.Out)}, nil
}

// report asks the follower for its report.
func (f *follower) report() (r followerReport, err error) {
	if _, err = fmt.Fprintln(f.In); err == nil {
		err = f.reports.Decode(&r)
	}
	return r, err
}

// askEvery is the time between two reports that until asks for. A report takes some
// 100 us of the follower's processor time, which is what is measured.
const askEvery = 100 * time.Millisecond

// until waits for a report of which a condition holds, and returns it.
func (f *follower) until(ctx context.Context, what string, holds func(followerReport) bool) (r followerReport, err error) {
	err = harness.PollEvery(ctx, askEvery, what, func() (bool, error) {
		r, err = f.report()
		return holds(r), err
	})
	return r, err
}
