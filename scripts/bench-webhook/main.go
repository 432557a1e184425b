// Bench-webhook measures the webhook sender over SQLite and PostgreSQL, with
// the receiver on the same cores:
//
//	go run ./scripts/bench-webhook [-postgres URL] [-only burst,paced,hang,kills,backlog] [-databases sqlite,postgres]
//
// What is called: burst, how many deliveries a second arrive when events with
// 20 subscriptions each come as fast as the database takes them, beside a bare
// loop that signs and posts the same bodies; paced, how long from the event's
// write to its arrival at 600 deliveries a second; hang, what one endpoint in
// ten that never answers does to the rest; kills, how many deliveries are lost
// when the process is killed again and again; backlog, what the process takes
// with a million deliveries waiting.
//
// It ends in lines "figure NAME VALUE UNIT". Where a name has no database in
// it, the figure is the worse of both.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-webhook:", err)
		os.Exit(1)
	}
}

// database is one that is measured. open makes an empty one and returns its URL.
type database struct {
	kind string
	open func(ctx context.Context, dir string) (url string, drop func(), err error)
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("bench-webhook", flag.ContinueOnError)
	postgres := flags.String("postgres", postgresDefault(), "`URL` of a PostgreSQL database in which schemas may be made")
	only := flags.String("only", "burst,paced,hang,kills,backlog", "what to measure")
	kinds := flags.String("databases", "sqlite,postgres", "where")
	events := flags.Int("events", 6000, "events of the burst")
	profile := flags.String("profile", "", "write a CPU profile of the bursts to this `FILE`")
	child := flags.String("child", "", "the part that is killed or weighed (used by bench-webhook itself)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *child != "" {
		return runChild(ctx, *child, os.Stdin, out)
	}
	dir, err := os.MkdirTemp("", "bench-webhook-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	receiver, err := newReceiver(dir)
	if err != nil {
		return err
	}
	defer receiver.close()
	b := &bench{out: out, dir: dir, receiver: receiver, figures: map[string]figure{}, profile: *profile, events: *events}
	wanted := func(what string) bool { return slices.Contains(strings.Split(*only, ","), what) }
	for _, d := range []database{
		{"sqlite", func(_ context.Context, dir string) (string, func(), error) {
			return filepath.Join(dir, "origin.db"), func() {}, nil
		}},
		{"postgres", func(ctx context.Context, _ string) (string, func(), error) { return postgresSchema(ctx, *postgres) }},
	} {
		if !slices.Contains(strings.Split(*kinds, ","), d.kind) {
			continue
		}
		for _, part := range []struct {
			name    string
			measure func(context.Context, database) error
		}{{"burst", b.burst}, {"paced", b.paced}, {"hang", b.hang}, {"kills", b.kills}, {"backlog", b.backlog}} {
			if !wanted(part.name) {
				continue
			}
			began := time.Now()
			if err := part.measure(ctx, d); err != nil {
				return fmt.Errorf("%s over %s: %w", part.name, d.kind, err)
			}
			fmt.Fprintf(out, "%s over %s took %.1f s\n", part.name, d.kind, time.Since(began).Seconds())
		}
	}
	b.print()
	return nil
}

// bench is a run.
type bench struct {
	out      io.Writer
	dir      string
	receiver *receiver
	profile  string
	events   int

	figures map[string]figure
	order   []string
}

type figure struct {
	value float64
	unit  string
}

// note keeps a figure; of one noted before, the worse value.
func (b *bench) note(name string, value float64, unit string, better func(a, b float64) bool) {
	old, again := b.figures[name]
	if !again {
		b.order = append(b.order, name)
	}
	if !again || better(old.value, value) {
		b.figures[name] = figure{value, unit}
	}
}

func more(a, b float64) bool { return a > b }
func less(a, b float64) bool { return a < b }

func (b *bench) print() {
	for _, name := range b.order {
		fmt.Fprintf(b.out, "figure %s %.4g %s\n", name, b.figures[name].value, b.figures[name].unit)
	}
}
