// Package harness runs benches: it parses their flags, gives them a directory,
// runs the parts that were asked for, and prints what they measured.
//
// Every bench ends its output in lines "figure NAME VALUE UNIT".
package harness

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Bench is one run of a bench.
type Bench struct {
	// Name is the first word of every figure, such as "sync".
	Name string
	// Flags are parsed by Main; a bench adds its own before.
	Flags *flag.FlagSet
	// Dir is a temporary directory. It is removed at the end.
	Dir string

	only    *string
	ordered func(context.Context) error // what a child does; nil: it is none
	figures []figure
}

type figure struct {
	group string
	name  string
	value float64
	unit  string
}

// Part is a piece of a bench, which the flag -only picks by its name.
type Part struct {
	Name    string
	Measure func(context.Context) error
}

// New returns the bench called name.
func New(name string) *Bench {
	return &Bench{Name: name, Flags: flag.NewFlagSet("bench-"+name, flag.ExitOnError)}
}

// Only adds the flag -only, which picks parts; without the flag all of them run.
func (b *Bench) Only(parts ...string) {
	b.only = b.Flags.String("only", strings.Join(parts, ","), "`PARTS` to measure")
}

// OnlyOf is Only with the names of parts.
func (b *Bench) OnlyOf(parts []Part) {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Name
	}
	b.Only(names...)
}

// RunInTurn is Run, one part after the other.
func (b *Bench) RunInTurn(ctx context.Context, parts []Part) error {
	for _, p := range parts {
		if err := b.Run(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// Main parses the flags and calls measure until it returns, or an interrupt ends
// its context. It prints the figures, and exits with status 1 when measure fails.
func (b *Bench) Main(measure func(context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	_ = b.Flags.Parse(os.Args[1:]) // exits when it fails
	err := b.run(ctx, measure)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench-%s: %v\n", b.Name, err)
		os.Exit(1)
	}
}

func (b *Bench) run(ctx context.Context, measure func(context.Context) error) (err error) {
	if b.Dir, err = os.MkdirTemp("", "bench-"+b.Name+"-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(b.Dir) }()
	defer b.printFigures()
	if b.ordered != nil {
		measure = b.ordered
	}
	return measure(ctx)
}

// Wants reports whether the flag -only picks the part.
func (b *Bench) Wants(part string) bool { return slices.Contains(strings.Split(*b.only, ","), part) }

// Run measures, side by side, those of the parts that are wanted.
func (b *Bench) Run(ctx context.Context, parts ...Part) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range parts {
		if !b.Wants(p.Name) {
			continue
		}
		group.Go(func() error {
			began := time.Now()
			if err := p.Measure(ctx); err != nil {
				return fmt.Errorf("%s: %w", p.Name, err)
			}
			b.Printf("%s took %.1f s", p.Name, time.Since(began).Seconds())
			return nil
		})
	}
	return group.Wait()
}

// Printf prints a line.
func (b *Bench) Printf(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// Figure keeps a figure, to be printed at the end.
func (b *Bench) Figure(name string, value float64, unit string) {
	b.FigureOf(b.Name, name, value, unit)
}

// FigureOf keeps a figure that is printed under the name of a group in place of the
// bench's. It panics if the unit is not one word: a line of a figure has four.
func (b *Bench) FigureOf(group, name string, value float64, unit string) {
	if fields := strings.Fields(unit); len(fields) != 1 || fields[0] != unit {
		panic(fmt.Sprintf("figure %s.%s has the unit %q, which is not one word", group, name, unit))
	}
	b.figures = append(b.figures, figure{group, name, value, unit})
}

// Worst keeps a figure that is measured several times: of all values the highest
// is printed, or the lowest where more is better.
func (b *Bench) Worst(name string, value float64, unit string, moreIsBetter bool) {
	for i, f := range b.figures {
		if f.name == name {
			if (value < f.value) == moreIsBetter {
				b.figures[i].value = value
			}
			return
		}
	}
	b.Figure(name, value, unit)
}

func (b *Bench) printFigures() {
	for _, f := range b.figures {
		digits := "%.4g"
		if math.Abs(f.value) >= 1000 { // no exponents
			digits = "%.0f"
		}
		b.Printf("figure %s.%s "+digits+" %s", f.group, f.name, f.value, f.unit)
	}
}
