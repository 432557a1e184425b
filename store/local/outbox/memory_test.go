package outbox

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// writeBacklog writes a file of about size bytes of records with bodies of 300 to
// 500 bytes, as leads have, and returns how many there are.
func writeBacklog(t testing.TB, path string, size int) (n int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	body := make([]byte, 500)
	var rec []byte
	for written := 0; written < size; n++ {
		rec = appendRecord(rec[:0], recordLead, fmt.Sprintf("lead_%026d", n), body[:300+n*7919%201])
		written += len(rec)
		if _, err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// damage changes a byte of the file at path.
func damage(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("\xff"), at); err != nil {
		t.Fatal(err)
	}
}

// TestOpeningTakesLittleMemory opens a backlog, whole and damaged. All that is
// allocated counts, garbage as well.
func TestOpeningTakesLittleMemory(t *testing.T) {
	const size, most = 64 << 20, 12 << 20
	path := filepath.Join(t.TempDir(), "outbox")
	n := writeBacklog(t, path, size)
	for _, want := range []int{n, n - 1} {
		if want < n {
			damage(t, path, size/2)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		o := openBox(t, path, 1<<30, nil)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		t.Logf("%d items: %v, %d KiB allocated", o.Len(), took, (after.TotalAlloc-before.TotalAlloc)>>10)
		if got := after.TotalAlloc - before.TotalAlloc; got > most {
			t.Errorf("opening %d MiB of %d items takes %d MiB of memory", size>>20, want, got>>20)
		}
		if o.Len() != want {
			t.Errorf("%d wait, want %d", o.Len(), want)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkOpen opens a backlog of 1 GiB, whole and with a byte damaged. Each is
// best run alone: heap-MiB is the most that the process ever took from the system
// for its heap.
func BenchmarkOpen(b *testing.B) {
	const size = 1 << 30
	for _, damaged := range []bool{false, true} {
		b.Run(fmt.Sprintf("damaged=%t", damaged), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "outbox")
			n := writeBacklog(b, path, size)
			if damaged {
				damage(b, path, size/2)
				n--
			}
			var at runtime.MemStats
			for b.Loop() {
				o, err := Open(Config{Path: path, RejectedPath: path + ".rejected", MaxBytes: 2 << 30, Log: slog.New(slog.DiscardHandler), Now: time.Now})
				if err != nil {
					b.Fatal(err)
				}
				if o.Len() != n {
					b.Fatalf("%d wait, want %d", o.Len(), n)
				}
				runtime.ReadMemStats(&at)
				b.ReportMetric(float64(at.HeapSys>>20), "heap-MiB")
				if err := o.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHandOver hands a backlog of 256 MiB over, 200 items at a time.
func BenchmarkHandOver(b *testing.B) {
	handedOver := 0
	for b.Loop() {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "outbox")
		n := writeBacklog(b, path, 256<<20)
		o, err := Open(Config{Path: path, RejectedPath: path + ".rejected", MaxBytes: 2 << 30, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for o.Len() > 0 {
			items, err := o.Pending(200, 256<<10, nil)
			if err != nil {
				b.Fatal(err)
			}
			ids := make([]string, len(items))
			for i := range items {
				ids[i] = items[i].ID
			}
			if err := o.Remove(b.Context(), ids...); err != nil {
				b.Fatal(err)
			}
		}
		handedOver += n
		if err := o.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(handedOver)/b.Elapsed().Seconds(), "items/s")
}
