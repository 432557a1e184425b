package local

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"partneredge/store/durable"
	"partneredge/store/local/outbox"
	"partneredge/store/ratelimit"
)

// Leads kept a second by 64 clients, durable.
func BenchmarkAppend(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir(), OutboxBytes: 8 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	body := make([]byte, 400)
	var n atomic.Int64
	b.SetParallelism(32) // of each processor
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Outbox.Append(b.Context(), outbox.Item{ID: fmt.Sprintf("lead_%d", n.Add(1)), Body: body}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What the disk allows: records written and synced 64 at a time.
func BenchmarkSync64(b *testing.B) {
	f, err := durable.OS{}.OpenFile(filepath.Join(b.TempDir(), "f"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	group := make([]byte, 64*430)
	for i := 0; i < b.N; i += 64 {
		if _, err := f.Write(group); err != nil {
			b.Fatal(err)
		}
		if err := f.SyncData(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, err := s.Buckets.Take(fmt.Sprintf("key_%d", n.Add(1)%1000), ratelimit.MaxLimit); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkGet(b *testing.B) {
	s, err := Open(Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	names := make([]string, 1000)
	for i := range names {
		names[i] = KeyName(fmt.Append(nil, i))
		if _, err := s.Keys.Put(names[i], Record{Ref: fmt.Sprint(i), Frame: string(make([]byte, 150))}, s.Keys.Epoch()); err != nil {
			b.Fatal(err)
		}
	}
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, ok := s.Keys.Get(names[i%len(names)]); !ok {
				b.Fatal("gone")
			}
		}
	})
}
