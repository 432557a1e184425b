// Command webhook measures the webhook sender over SQLite and PostgreSQL, with
// the receiver on the same cores:
//
//	go run ./scripts/bench/webhook [-postgres URL] [-only burst,paced,hang,kills,backlog] [-databases sqlite,postgres]
//
// What is called: burst, how many deliveries a second arrive when events with
// 20 subscriptions each come as fast as the database takes them, beside a bare
// loop that signs and posts the same bodies; paced, how long from the event's
// write to its arrival at 600 deliveries a second; hang, what one endpoint in
// ten that never answers does to the rest, over more than two timeouts of its
// tries; kills, how many deliveries are lost when the process is killed again and
// again; backlog, what the process takes with a million deliveries waiting. A part that comes
// to its bound of time on a busy machine says how much it has done.
//
// It ends in lines "figure NAME VALUE UNIT". Where a name has no database in
// it, the figure is the worse of both.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"partneredge/scripts/bench/harness"
)

func main() {
	b := &bench{Bench: harness.New("webhook")}
	b.Only("burst", "paced", "hang", "kills", "backlog")
	postgres := b.Flags.String("postgres", harness.PostgresURL(), "`URL` of a PostgreSQL database in which schemas may be made")
	kinds := b.Flags.String("databases", "sqlite,postgres", "where")
	b.Flags.IntVar(&b.events, "events", 6000, "events of the burst")
	b.Flags.StringVar(&b.profile, "profile", "", "write a CPU profile of the bursts to this `FILE`")
	harness.OnOrder(b.Bench, runChild)
	b.Main(func(ctx context.Context) error { return b.measure(ctx, *postgres, strings.Split(*kinds, ",")) })
}

// database is one that is measured. open makes an empty one and returns its URL.
type database struct {
	kind string
	open func(ctx context.Context, dir string) (url string, drop func(), err error)
}

// empty makes an empty database in a directory of its own.
func (b *bench) empty(ctx context.Context, d database) (url string, drop func(), err error) {
	dir, err := os.MkdirTemp(b.Dir, d.kind)
	if err != nil {
		return "", nil, err
	}
	return d.open(ctx, dir)
}

// bench is a run.
type bench struct {
	*harness.Bench
	receiver *receiver
	profile  string
	events   int
}

func (b *bench) measure(ctx context.Context, postgres string, kinds []string) (err error) {
	if b.receiver, err = newReceiver(b.Dir); err != nil {
		return err
	}
	defer b.receiver.close()
	for _, d := range []database{
		{"sqlite", func(_ context.Context, dir string) (string, func(), error) {
			return filepath.Join(dir, "origin.db"), func() {}, nil
		}},
		{"postgres", func(ctx context.Context, _ string) (string, func(), error) { return b.PostgresSchema(ctx, postgres) }},
	} {
		if !slices.Contains(kinds, d.kind) {
			continue
		}
		b.Printf("over %s:", d.kind)
		for _, part := range []struct {
			name    string
			measure func(context.Context, database) error
		}{{"burst", b.burst}, {"paced", b.paced}, {"hang", b.hang}, {"kills", b.kills}, {"backlog", b.backlog}} {
			if err := b.Run(ctx, harness.Part{Name: part.name, Measure: func(ctx context.Context) error { return part.measure(ctx, d) }}); err != nil {
				return fmt.Errorf("over %s: %w", d.kind, err)
			}
		}
	}
	return nil
}
