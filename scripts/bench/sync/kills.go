package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/backoff"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

// killing sends leads to a node while it and its origin are killed in turn, and
// counts what has arrived at the origin.
func (b *bench) killing(ctx context.Context) error {
	p := &pair{bench: b, dir: filepath.Join(b.Dir, "kills"), listen: "127.0.0.1:0"}
	p.node.Ready = filepath.Join(p.dir, "node", "node.json")
	defer p.node.Kill()
	defer p.origin.Kill()
	if err := p.start(ctx); err != nil {
		return err
	}
	var sent leadCount
	var posting sync.WaitGroup
	for range 8 {
		posting.Go(func() { p.sendLeads(ctx, &sent) })
	}
	for kill := range b.kills {
		// Spread over the whole of the leads, and while some are sent.
		due := int64(b.leads * kill / (b.kills + 1))
		if err := harness.Poll(ctx, "leads to be sent", func() (bool, error) { return sent.done.Load() >= due, nil }); err != nil {
			return err
		}
		if err := p.killOne(ctx, kill); err != nil {
			return err
		}
	}
	posting.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := p.drained(ctx); err != nil {
		return err
	}
	arrived, err := leadsOf(ctx, p.origin.Admin, p.account)
	if err != nil {
		return err
	}
	lost, twice := 0, 0
	for i := range b.leads {
		switch n := arrived[leadEmail(i)]; {
		case n == 0:
			lost++
		case n > 1:
			twice += n - 1
		}
	}
	b.Printf("%d leads through %d kills; %d requests had to be sent again", b.leads, b.kills, sent.again.Load())
	b.Figure("leads_lost", float64(lost), "leads")
	b.Figure("leads_duplicated", float64(twice), "leads")
	return nil
}

// leadCount counts the leads of all senders.
type leadCount struct{ next, done, again atomic.Int64 }

func leadEmail(i int) string { return fmt.Sprintf("lead-%05d@example.com", i) }

// sendLeads sends leads until all senders together have sent every one. A request
// that gets no answer, or a 500, is sent again with the same Idempotency-Key.
func (p *pair) sendLeads(ctx context.Context, count *leadCount) {
	for {
		i := count.next.Add(1) - 1
		if i >= int64(p.bench.leads) {
			return
		}
		email := leadEmail(int(i))
		for p.bench.post(ctx, "http://"+p.listen, p.key, email, email) != http.StatusCreated {
			count.again.Add(1)
			if backoff.Pause(ctx, 20*time.Millisecond) != nil {
				return
			}
		}
		count.done.Add(1)
	}
}

// leadsOf counts the account's leads by e-mail address.
func leadsOf(ctx context.Context, a *fleet.Admin, account string) (map[string]int, error) {
	count := map[string]int{}
	for lead, err := range adminapi.All[adminapi.Lead](ctx, &a.Client, "/accounts/"+account+"/leads", nil) {
		if err != nil {
			return nil, err
		}
		count[lead.Email]++
	}
	return count, nil
}

// pair is an origin and a node as processes, at addresses that they keep.
type pair struct {
	bench        *bench
	dir          string
	account, key string // key is a partner's
	credentials  string
	listen       string // host:port
	metrics      string
	origin       fleet.OriginProcess
	node         fleet.Process
}

// start starts both, and makes the node hold a key of an account.
func (p *pair) start(ctx context.Context) error {
	if err := p.startOrigin(ctx); err != nil {
		return err
	}
	var err error
	if p.account, err = p.origin.Admin.Account(ctx); err != nil {
		return err
	}
	if _, p.key, err = p.origin.Admin.Key(ctx, p.account, unlimited); err != nil {
		return err
	}
	if p.credentials, err = p.origin.Admin.Enrol(ctx, filepath.Join(p.dir, "node"), "bench"); err != nil {
		return err
	}
	if err := os.Symlink(p.bench.cache, filepath.Join(p.dir, "node", "cache")); err != nil {
		return err
	}
	if err := p.startNode(ctx); err != nil {
		return err
	}
	if p.bench.post(ctx, "http://"+p.listen, p.key, "first", "lead-first@example.com") != http.StatusCreated {
		return fmt.Errorf("the first lead was refused")
	}
	return nil
}

// killOne kills the node or the origin, in turn, and starts it again.
func (p *pair) killOne(ctx context.Context, nth int) error {
	if nth%2 == 0 {
		p.node.Kill()
		return p.startNode(ctx)
	}
	p.origin.Kill()
	return p.startOrigin(ctx)
}

func (p *pair) startOrigin(ctx context.Context) error {
	return p.origin.Launch(ctx, p.bench.edge, filepath.Join(p.dir, "origin"))
}

func (p *pair) startNode(ctx context.Context) error {
	var at struct {
		URL     string `json:"base_url"`
		Metrics string `json:"metrics_url"`
	}
	err := p.node.Start(ctx, &at, p.bench.edge, "node", "--data", filepath.Join(p.dir, "node"), "--region", "bench", "--origin", p.origin.NATS,
		"--credentials", p.credentials, "--listen", p.listen, "--metrics", "127.0.0.1:0", "--log-level", "error")
	p.listen, p.metrics = strings.TrimPrefix(at.URL, "http://"), strings.TrimSuffix(at.Metrics, "/metrics")
	return err
}

// drained waits until the node has handed everything over.
func (p *pair) drained(ctx context.Context) error {
	return harness.Poll(ctx, "the leads to be handed over", func() (bool, error) {
		left, err := p.bench.metric(ctx, p.metrics, "edge_outbox_leads", "")
		return err == nil && left == 0, nil
	})
}
