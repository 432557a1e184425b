package local

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"partneredge/store/ratelimit"
)

// A node that is given far more keys than it may keep stays within its bounds in
// memory and on disk, loses none that is in use, and gives no key's tokens back.
func TestHotSetStaysWithinItsBounds(t *testing.T) {
	const (
		keys  = 20_000
		inUse = 50
		room  = 1 << 20
		worth = 1 << 20 // bytes from which on files are made smaller
	)
	dir := t.TempDir()
	at := newClock()
	hot, limits := mustFile(t, filepath.Join(dir, "hot.db")), mustFile(t, filepath.Join(dir, "limits.db"))
	hot.shrinkFrom, limits.shrinkFrom = worth, worth
	replica, err := newReplica("k:", room, hot, 0, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := newBuckets(limits, false, at.now)
	if err != nil {
		t.Fatal(err)
	}
	negatives := newNegatives(5*time.Second, 1000, at.now)
	name := func(i int) string { return KeyName(binary.LittleEndian.AppendUint64(nil, uint64(i))) }
	putKey := func(i int) {
		t.Helper()
		if _, err := replica.Put(name(i), Record{Ref: fmt.Sprint("key_", i), Frame: string(make([]byte, 200)), Seq: 1}, replica.Epoch()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	upkept := make(chan error, 2)
	for _, f := range []*file{hot, limits} {
		go func() {
			for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				if err := errorsFirst(f.sync(), f.shrink()); err != nil {
					upkept <- err
					return
				}
			}
			upkept <- nil
		}()
	}
	for i := range inUse {
		putKey(-1 - i)
	}
	var merger ratelimit.Merger
	reporter := ratelimit.Reporter{Node: "node", Boot: buckets.Boot()}
	var spent []string
	most := int64(0)
	for i := range keys {
		putKey(i)
		if _, held := replica.Get(name(-1 - i%inUse)); !held {
			t.Fatalf("a key in use was put out by key %d", i)
		}
		negatives.Add([32]byte([]byte(name(i+keys))), negatives.Epoch())
		id := fmt.Sprint("key_", i%(keys/2)) // each is used twice, with a rest
		if b, _, err := buckets.Take(id, 100); err != nil || !b.Allowed {
			t.Fatal(b, err)
		}
		at.pass(time.Millisecond)
		if spent = append(spent, id); len(spent) < 500 {
			continue
		}
		reports, err := buckets.Reports(spent)
		if err != nil {
			t.Fatal(err)
		}
		shares := merger.Merge(reporter, reports, at.now().UnixMicro())
		for id, share := range shares {
			// What is missing is what this use took: neither nothing nor what an
			// earlier account had counted.
			if share.Missing == 0 || share.Missing > ratelimit.Token {
				t.Fatalf("%s: %d grains missing after one request", id, share.Missing)
			}
		}
		if behind, err := buckets.Apply(shares); err != nil || len(behind) > 0 {
			t.Fatal(behind, err)
		}
		if err := buckets.sweep(); err != nil {
			t.Fatal(err)
		}
		spent = spent[:0]
		if n := buckets.Len(); n > int(restFor.Milliseconds())+1000 {
			t.Fatalf("%d accounts, one a millisecond, each kept for %v", n, restFor)
		}
		if replica.Bytes() > room || len(negatives.until) > 1000 || len(negatives.order) > 1000 {
			t.Fatalf("%d bytes of records, %d negatives", replica.Bytes(), len(negatives.until))
		}
		most = max(most, dirSize(t, dir))
	}
	stop()
	for range 2 {
		if err := <-upkept; err != nil {
			t.Fatal(err)
		}
	}
	// While a file is rewritten there are its base, a new one and a log each. How
	// much is logged meanwhile depends on the machine.
	if err := errorsFirst(hot.shrink(), limits.shrink()); err != nil {
		t.Fatal(err)
	}
	if size := dirSize(t, dir); size > 8*room {
		t.Errorf("the files have %d bytes, at their most %d", size, most)
	}
	held := replica.Len()
	if err := errorsFirst(hot.close(), limits.close()); err != nil {
		t.Fatal(err)
	}
	hot = mustFile(t, filepath.Join(dir, "hot.db"))
	defer hot.close()
	if replica, err = newReplica("k:", room, hot, 0, time.Now); err != nil || replica.Len() != held {
		t.Errorf("%d records after a restart, %d before, %v", replica.Len(), held, err)
	}
	t.Logf("%d keys: %d held, %d accounts, files of %d bytes, at most %d", keys, held, buckets.Len(), dirSize(t, dir), most)
}

// dirSize returns the bytes that the files in dir take; those that go meanwhile do not count.
func dirSize(t *testing.T, dir string) (sum int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}
