// Command hotset gives a node's store five million distinct keys, one after the
// other, each asked for once and spent from, while a thousand others are in use
// all the time. It measures what memory and disk that takes, and for how long a
// request's reads and writes stall at worst while the files are made small.
//
//	go run ./scripts/bench/hotset [-keys 5000000]
//
// It ends after 240 s at the latest: the figure keys says how far it came.
//
// It ends in lines "figure NAME VALUE UNIT".
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/scripts/bench/harness"
	"partneredge/store/local"
	"partneredge/store/ratelimit"
)

func main() {
	b := harness.New("hotset")
	keys := b.Flags.Int("keys", 5_000_000, "distinct keys")
	b.Main(func(ctx context.Context) error { return measure(ctx, b, *keys) })
}

const (
	inUse     = 1000 // keys that are used all the time
	frameSize = 200  // bytes of a key's record
	perMinute = 100  // each key's limit
	batch     = 1000 // keys a report to the origin
	most      = 240 * time.Second
)

func measure(ctx context.Context, b *harness.Bench, keys int) error {
	store, err := local.Open(local.Config{Dir: filepath.Join(b.Dir, "store")})
	if err != nil {
		return err
	}
	defer store.Close()

	used := make([]string, inUse)
	for i := range used {
		used[i] = name(1<<40 + i)
		if err := put(store, used[i], 1<<40+i); err != nil {
			return err
		}
	}
	probes, err := startProbes(ctx, b.Dir, store, used)
	if err != nil {
		return err
	}
	began := time.Now()
	done, err := flood(ctx, store, keys)
	took := time.Since(began)
	if stopped := probes.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	lost := 0
	for _, n := range used {
		if _, held := store.Keys.Get(n); !held {
			lost++
		}
	}
	b.Printf("%d keys in %.0f s; %d held, %d accounts, %d of the %d in use lost",
		done, took.Seconds(), store.Keys.Len(), store.Buckets.Len(), lost, inUse)
	probes.print(b)
	b.Figure("keys", float64(done), "keys")
	b.Figure("keys_per_s", float64(done)/took.Seconds(), "keys")
	b.Figure("in_use_lost", float64(lost), "keys")
	b.Figure("rss_mib", probes.rss, "MiB")
	b.Figure("file_mib", probes.files, "MiB")
	b.Figure("read_stall_ms", harness.Milliseconds(probes.read.worst), "ms")
	b.Figure("write_stall_ms", harness.Milliseconds(probes.write.worst), "ms")
	b.Figure("bare_write_stall_ms", harness.Milliseconds(probes.bare.worst), "ms")
	return nil
}

func name(i int) string { return local.KeyName(binary.LittleEndian.AppendUint64(nil, uint64(i))) }

func keyID(i int) string { return fmt.Sprintf("key_%026d", i) }

func put(store *local.Store, name string, i int) error {
	_, err := store.Keys.Put(name, local.Record{Ref: keyID(i), Frame: string(make([]byte, frameSize)), Seq: 1, Fetched: time.Now()}, store.Keys.Epoch())
	return err
}

// flood does for each key what a node does for its first request, and for an
// unknown key besides; the origin confirms what was spent. It returns how many
// there was time for.
func flood(ctx context.Context, store *local.Store, keys int) (done int, err error) {
	began := time.Now()
	var merger ratelimit.Merger
	reporter := ratelimit.Reporter{Node: "bench", Boot: store.Buckets.Boot()}
	var spent []string
	for i := range keys {
		key := name(i)
		store.Negatives.Add([32]byte([]byte(name(-i))), store.Negatives.Epoch())
		if err := put(store, key, i); err != nil {
			return i, err
		}
		if _, _, err := store.Buckets.Take(keyID(i), perMinute); err != nil {
			return i, err
		}
		if spent = append(spent, keyID(i)); len(spent) < batch && i < keys-1 {
			continue
		}
		reports, err := store.Buckets.Reports(spent)
		if err != nil {
			return i, err
		}
		now := time.Now().UnixMicro()
		if _, err := store.Buckets.Apply(merger.Merge(reporter, reports, now)); err != nil {
			return i, err
		}
		merger = ratelimit.Merger{} // the origin's memory is not measured here
		spent = spent[:0]
		if err := ctx.Err(); err != nil {
			return i, err
		}
		if time.Since(began) > most {
			return i, nil
		}
	}
	return keys, nil
}

// probe calls do every millisecond and keeps how long it took.
type probe struct {
	what  string
	calls int
	over  int // that took longer than slow
	worst time.Duration
	at    time.Duration // of the worst, since the start
}

const slow = 20 * time.Millisecond

func (p *probe) run(ctx context.Context, do func(i int) error) error {
	tick := time.Tick(time.Millisecond)
	start := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		began := time.Now()
		if err := do(i); err != nil {
			return fmt.Errorf("%s: %w", p.what, err)
		}
		took := time.Since(began)
		p.calls++
		if took > slow {
			p.over++
		}
		if took > p.worst {
			p.worst, p.at = took, began.Sub(start)
		}
		<-tick
	}
	return nil
}

// probes measure reads, writes, memory and files while the store is filled.
type probes struct {
	read, write, bare probe
	rss, files        float64 // most, MiB

	end  context.CancelFunc
	wait errgroup.Group
}

func startProbes(ctx context.Context, dir string, store *local.Store, used []string) (*probes, error) {
	// The bare one writes as many bytes to a file of its own: what the machine
	// and its file system do to anybody.
	bare, err := os.Create(filepath.Join(dir, "bare"))
	if err != nil {
		return nil, err
	}
	p := &probes{read: probe{what: "reads"}, write: probe{what: "writes"}, bare: probe{what: "bare writes"}}
	ctx, p.end = context.WithCancel(ctx)
	p.wait.Go(func() error {
		return p.read.run(ctx, func(i int) error {
			store.Lockouts.Lockout("192.0.2.1")
			if _, held := store.Keys.Get(used[i%len(used)]); !held {
				return fmt.Errorf("a key in use was put out")
			}
			return nil
		})
	})
	p.wait.Go(func() error {
		return p.write.run(ctx, func(i int) error {
			_, _, err := store.Buckets.Take(keyID(1<<40+i%len(used)), ratelimit.MaxLimit)
			return err
		})
	})
	p.wait.Go(func() error {
		defer bare.Close()
		value := make([]byte, 170)
		return p.bare.run(ctx, func(int) error { _, err := bare.Write(value); return err })
	})
	p.wait.Go(func() error {
		for tick := time.Tick(50 * time.Millisecond); ctx.Err() == nil; <-tick {
			if rss, err := harness.ResidentMiB("self"); err == nil {
				p.rss = max(p.rss, rss)
			}
			p.files = max(p.files, filesMiB(filepath.Join(dir, "store")))
		}
		return nil
	})
	return p, nil
}

func (p *probes) stop() error {
	p.end()
	return p.wait.Wait()
}

func (p *probes) print(b *harness.Bench) {
	for _, one := range []*probe{&p.read, &p.write, &p.bare} {
		b.Printf("%s: %d, %d took over %v; the worst %.1f ms, after %.1f s",
			one.what, one.calls, one.over, slow, harness.Milliseconds(one.worst), one.at.Seconds())
	}
}

func filesMiB(dir string) float64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil { // it may be gone
				sum += info.Size()
			}
		}
		return nil
	})
	return float64(sum) / (1 << 20)
}
