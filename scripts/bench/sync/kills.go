package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

// killing sends leads to a node while it and its origin are killed in turn, and
// counts what has arrived at the origin. A request that gets no answer, or a 500,
// is sent again with the same Idempotency-Key.
func (b *bench) killing(ctx context.Context) error {
	dir := filepath.Join(b.Dir, "kills")
	p := &pair{
		bench: b, dir: dir, origin: fleet.Process{Ready: filepath.Join(dir, "origin", "origin.json")},
		node: fleet.Process{Ready: filepath.Join(dir, "node", "node.json")}, admin: "127.0.0.1:0", nats: "127.0.0.1:0", listen: "127.0.0.1:0",
	}
	defer p.node.Kill()
	defer p.origin.Kill()
	if err := p.startOrigin(ctx); err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(dir, "origin", "admin.token"))
	if err != nil {
		return err
	}
	a := &fleet.Admin{URL: "http://" + p.admin, Token: strings.TrimSpace(string(token)), Client: b.region.client}
	account, err := a.Account(ctx)
	if err != nil {
		return err
	}
	_, key, err := a.Key(ctx, account, unlimited)
	if err != nil {
		return err
	}
	if p.credentials, err = a.Enrol(ctx, filepath.Join(dir, "node"), "bench"); err != nil {
		return err
	}
	if err := os.Symlink(b.cache, filepath.Join(dir, "node", "cache")); err != nil {
		return err
	}
	if err := p.startNode(ctx); err != nil {
		return err
	}
	if b.post(ctx, "http://"+p.listen, key, "first", "lead-first@example.com") != http.StatusCreated { // the node now holds the key
		return fmt.Errorf("the first lead was refused")
	}

	var next, done, refused atomic.Int64
	var posting sync.WaitGroup
	for range 8 {
		posting.Go(func() {
			for i := next.Add(1); i <= int64(b.leads); i = next.Add(1) {
				name := fmt.Sprintf("lead-%05d@example.com", i)
				for status := 0; status != http.StatusCreated && ctx.Err() == nil; {
					if status = b.post(ctx, "http://"+p.listen, key, name, name); status != http.StatusCreated {
						refused.Add(1)
						_ = harness.Sleep(ctx, 20*time.Millisecond)
					}
				}
				done.Add(1)
			}
		})
	}
	kills := 0
	for ; kills < b.kills; kills++ {
		// Spread over the whole of the leads, and while some are sent.
		for done.Load() < int64(b.leads*kills/(b.kills+1)) {
			if err := harness.Sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
		if kills%2 == 0 {
			p.node.Kill()
			err = p.startNode(ctx)
		} else {
			p.origin.Kill()
			err = p.startOrigin(ctx)
		}
		if err != nil {
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
	arrived, err := leadsOf(ctx, a, account)
	if err != nil {
		return err
	}
	lost, twice := 0, 0
	for i := 1; i <= b.leads; i++ {
		switch n := arrived[fmt.Sprintf("lead-%05d@example.com", i)]; {
		case n == 0:
			lost++
		case n > 1:
			twice += n - 1
		}
	}
	b.Printf("%d leads through %d kills; %d requests had to be sent again", b.leads, kills, refused.Load())
	b.Figure("leads_lost", float64(lost), "leads")
	b.Figure("leads_duplicated", float64(twice), "leads")
	return nil
}

// leadsOf counts the account's leads by e-mail address.
func leadsOf(ctx context.Context, a *fleet.Admin, account string) (map[string]int, error) {
	count := map[string]int{}
	for cursor := ""; ; {
		var page struct {
			Items      []struct{ Email string }
			NextCursor *string `json:"next_cursor"`
		}
		if err := a.Call(ctx, "GET", "/accounts/"+account+"/leads?limit=200&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return nil, err
		}
		for _, l := range page.Items {
			count[l.Email]++
		}
		if page.NextCursor == nil {
			return count, nil
		}
		cursor = *page.NextCursor
	}
}

// pair is an origin and a node as processes, at addresses that they keep.
type pair struct {
	bench               *bench
	dir                 string
	credentials         string
	admin, nats, listen string // host:port
	metrics             string
	origin, node        fleet.Process
}

func (p *pair) startOrigin(ctx context.Context) error {
	var at struct {
		Admin string `json:"admin_url"`
		NATS  string `json:"nats_url"`
	}
	err := p.origin.Start(ctx, &at, p.bench.edge, "origin", "--data", filepath.Join(p.dir, "origin"), "--admin", p.admin, "--nats-listen", p.nats, "--log-level", "error")
	p.admin, p.nats = strings.TrimPrefix(at.Admin, "http://"), strings.TrimPrefix(at.NATS, "nats://")
	return err
}

func (p *pair) startNode(ctx context.Context) error {
	var at struct {
		URL     string `json:"base_url"`
		Metrics string `json:"metrics_url"`
	}
	err := p.node.Start(ctx, &at, p.bench.edge, "node", "--data", filepath.Join(p.dir, "node"), "--region", "bench", "--origin", "nats://"+p.nats,
		"--credentials", p.credentials, "--listen", p.listen, "--metrics", "127.0.0.1:0", "--log-level", "error")
	p.listen, p.metrics = strings.TrimPrefix(at.URL, "http://"), strings.TrimSuffix(at.Metrics, "/metrics")
	return err
}

// drained waits until the node has handed everything over.
func (p *pair) drained(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		left, err := p.bench.metric(ctx, p.metrics, "edge_outbox_leads", "")
		if err == nil && left == 0 {
			return nil
		}
		if err := harness.Sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%.0f leads are not handed over: %w", left, err)
		}
	}
}
