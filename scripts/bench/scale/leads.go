package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
	"partneredge/scripts/bench/harness"
	"partneredge/store"
)

const (
	leadNodes  = 16
	leadBatch  = 200 // as a node's outbox hands over at most
	leadKeys   = 1000
	leadTakes  = 3 * time.Second
	leadRounds = 3
)

// leads measures how many leads a second one origin takes from nodes that hand over full
// batches, one after the other, as they do after an absence.
func (b *bench) leads(ctx context.Context, s *site) (err error) {
	if err := s.accounts(ctx, resetAccounts); err != nil {
		return err
	}
	if err := s.keys(ctx, leadKeys); err != nil {
		return err
	}
	if _, err := s.startOrigin(ctx, s.DB); err != nil {
		return err
	}
	nodes := make([]*link.Link, leadNodes)
	for i := range nodes {
		if nodes[i], err = s.connect(ctx, fmt.Sprint("node-", i)); err != nil {
			return err
		}
	}
	var rates []float64
	total := int64(0)
	for range leadRounds {
		var committed atomic.Int64
		handing, ctx := errgroup.WithContext(ctx)
		began := time.Now()
		for _, node := range nodes {
			handing.Go(func() error {
				for time.Since(began) < leadTakes {
					if err := handOver(ctx, node); err != nil {
						return err
					}
					committed.Add(leadBatch)
				}
				return nil
			})
		}
		if err := handing.Wait(); err != nil {
			return err
		}
		total += committed.Load()
		rates = append(rates, float64(committed.Load())/time.Since(began).Seconds())
	}
	var kept int64
	if err := s.SQL.QueryRowContext(ctx, `SELECT count(*) FROM leads`).Scan(&kept); err != nil {
		return err
	}
	if kept != total { // what is quarantined counts as committed for a node
		return fmt.Errorf("%d leads are kept of %d", kept, total)
	}
	b.Printf("%.0f leads a second of %d nodes", rates, leadNodes)
	b.Figure("leads_per_s", harness.Median(rates), "leads")
	return nil
}

// handOver hands a batch of new leads to the origin.
func handOver(ctx context.Context, node *link.Link) error {
	var req wire.LeadsRequest
	for n := range leadBatch {
		now := time.Now()
		body, err := json.Marshal(store.AcceptedLead{KeyHash: []byte(keyHash(n)), Lead: store.Lead{
			ID: store.NewID("lead", now), AccountID: accountID(1 + n%resetAccounts), KeyID: keyID(n), Environment: store.Live,
			FirstName: "Sam", LastName: "Okafor", Email: "sam@example.com", Phone: "+15125550123",
			ConsentStatus: "express_written", ConsentText: "I agree to be called.", CapturedAt: now, OutreachAllowed: true, CreatedAt: now,
		}})
		if err != nil {
			return err
		}
		req.Leads = append(req.Leads, body)
	}
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var reply wire.LeadsReply
	if err := node.Ask(within, wire.VerbLeads, &req, &reply); err != nil {
		return err
	}
	if len(reply.Committed) != leadBatch || len(reply.Rejected) > 0 {
		return fmt.Errorf("%d of %d leads were committed, %d rejected", len(reply.Committed), leadBatch, len(reply.Rejected))
	}
	return nil
}
