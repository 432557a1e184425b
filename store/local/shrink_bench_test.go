package local

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/store/durable"
)

// BenchmarkShrink reports for how long the slowest read and the slowest write
// wait while a file of 100 000 records is made smaller, beside two readers and
// two writers. The figures that begin with "idle" are of the same calls while
// nothing is made smaller, and disk-ms is a write to a file of its own: what
// lies above those is the shrink's.
//
//	go test -run - -bench Shrink -benchtime 5x ./store/local
func BenchmarkShrink(b *testing.B) {
	const records = 100_000
	var busy, idle waits
	var took time.Duration
	for range b.N {
		f := fullFile(b, records)
		idle.add(waitsDuring(b, f, records, func() error { time.Sleep(time.Second); return nil }))
		busy.add(waitsDuring(b, f, records, func() error {
			began := time.Now()
			defer func() { took += time.Since(began) }()
			return f.shrink()
		}))
		if err := f.close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(took)/float64(b.N), "shrink-ms")
	for name, w := range map[string]*waits{"": &busy, "idle-": &idle} {
		b.ReportMetric(ms(slices.Max(w.reads)), name+"read-ms")
		b.ReportMetric(ms(slices.Max(w.writes)), name+"write-ms")
		b.ReportMetric(ms(slices.Max(w.disk)), name+"disk-ms")
		b.ReportMetric(ms(p999(w.reads)), name+"p999-read-ms")
		b.ReportMetric(ms(p999(w.writes)), name+"p999-write-ms")
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func p999(waits []time.Duration) time.Duration {
	slices.Sort(waits)
	return waits[len(waits)*999/1000]
}

func benchKey(i int) string { return fmt.Sprintf("k:%032d", i) }

var benchValue = strings.Repeat("v", 250)

// fullFile is a file of which half is not in use any more.
func fullFile(b *testing.B, records int) *file {
	b.Helper()
	f, err := openFile(durable.Disk{}, filepath.Join(b.TempDir(), "db"), slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		b.Fatal(err)
	}
	f.shrinkFrom = 0
	for range 2 {
		for i := range records {
			if err := f.set(benchKey(i), benchValue); err != nil {
				b.Fatal(err)
			}
		}
	}
	return f
}

// waits are how long calls took, each of them.
type waits struct {
	mu                  sync.Mutex
	reads, writes, disk []time.Duration
}

func (w *waits) add(other *waits) {
	w.reads = append(w.reads, other.reads...)
	w.writes = append(w.writes, other.writes...)
	w.disk = append(w.disk, other.disk...)
}

// waitsDuring calls work, and reads and writes f until it returns.
func waitsDuring(b *testing.B, f *file, records int, work func() error) *waits {
	b.Helper()
	other, err := os.Create(filepath.Join(b.TempDir(), "other"))
	if err != nil {
		b.Fatal(err)
	}
	defer other.Close()
	var w waits
	done := make(chan struct{})
	var running sync.WaitGroup
	repeat := func(into *[]time.Duration, call func() error) {
		running.Go(func() {
			var took []time.Duration
			for {
				select {
				case <-done:
					w.mu.Lock()
					*into = append(*into, took...)
					w.mu.Unlock()
					return
				default:
				}
				began := time.Now()
				if err := call(); err != nil {
					b.Error(err)
					return
				}
				took = append(took, time.Since(began))
				time.Sleep(200 * time.Microsecond)
			}
		})
	}
	for range 2 {
		repeat(&w.reads, func() error {
			_, err := f.get(benchKey(rand.IntN(records)))
			return err
		})
		repeat(&w.writes, func() error { return f.set(benchKey(rand.IntN(records)), benchValue) })
	}
	line := []byte(benchValue)
	repeat(&w.disk, func() error {
		_, err := other.Write(line)
		return err
	})
	if err := work(); err != nil {
		b.Fatal(err)
	}
	close(done)
	running.Wait()
	return &w
}
