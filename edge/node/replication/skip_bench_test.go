package replication

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/store"
	"partneredge/store/local"
)

// BenchmarkSkippedChange measures what a pushed change costs a node that does not hold its
// record, in messages of a thousand: what is left of scale.skip_ns without the network.
func BenchmarkSkippedChange(b *testing.B) {
	held, err := local.Open(local.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer held.Close()
	cfg := Config{Store: held, Link: new(link.Link), Log: slog.New(slog.DiscardHandler), Now: time.Now}
	s := newSynchronizer(cfg, newReplica(b.Context(), cfg), nil)
	changes := make([]store.Change, 1000)
	for seq := int64(0); b.Loop(); {
		b.StopTimer()
		for i := range changes {
			seq++
			changes[i] = store.Change{Seq: seq, Kind: store.ChangeKey, Ref: fmt.Sprintf("key_%026d", seq), Gone: i%2 == 0}
		}
		body, err := wire.Encode(&wire.Changed{Changes: changes, Latest: seq})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if got := s.handle(&nats.Msg{Data: body}); got != complete {
			b.Fatalf("message up to %d: %d", seq, got)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(changes)), "ns/change")
}
