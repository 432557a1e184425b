// Command scale measures what grows with the nodes, keys, endpoints and changes of
// an installation, at the sizes that one is to hold:
//
//	go run ./scripts/bench/scale [-postgres URL] [-only NAME,NAME]
//
// Each part is a file of its own, over a schema of its own in a real PostgreSQL and
// with a real NATS server on loopback. Nodes are followers: their replica and their
// link to the origin, without HTTP and modules. Parts run one after the other.
//
// It ends in lines "figure scale.NAME VALUE UNIT".
package main

import (
	"context"

	"partneredge/scripts/bench/harness"
)

func main() {
	b := &bench{Bench: harness.New("scale")}
	parts := []harness.Part{
		{Name: "ledger", Measure: b.ledger},
		{Name: "limiter", Measure: b.limiter},
		b.onSite("fleet", b.fleet),
		b.onSite("changes", b.changes),
		b.onSite("asks", b.asks),
		{Name: "push", Measure: b.push},
		b.onSite("reset", b.reset),
		b.onSite("claim", b.claim),
		b.onSite("healthy", b.healthy),
		b.onSite("ingest", b.ingest),
		b.onSite("leads", b.leads),
	}
	b.OnlyOf(parts)
	b.Flags.StringVar(&b.postgres, "postgres", harness.PostgresURL(), "`URL` of a PostgreSQL database in which schemas may be made")
	harness.OnOrder(b.Bench, runChild)
	b.Main(func(ctx context.Context) error { return b.RunInTurn(ctx, parts) })
}

// bench is one run.
type bench struct {
	*harness.Bench
	postgres string
}
