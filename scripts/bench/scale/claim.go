package main

import (
	"context"
	"fmt"
	"time"

	"partneredge/scripts/bench/harness"
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

const (
	claimEndpoints = 200_000
	claimWaiting   = 1_000_000
	claimAccounts  = 2000
	claimRounds    = 20
	claimQueues    = 64   // as many as the sender claims for at once
	claimLook      = 2000 // as many as it asks for
)

// claim measures a round of the webhook sender's search for work, a look at what is due
// and a claim, when a million deliveries wait for 200 000 endpoints and others are made.
func (b *bench) claim(ctx context.Context, s *site) error {
	if err := s.accounts(ctx, claimAccounts); err != nil {
		return err
	}
	if err := s.subscribe(ctx, claimEndpoints, claimAccounts, "https://127.0.0.1/"); err != nil {
		return err
	}
	if err := s.deliveries(ctx, claimEndpoints, claimWaiting); err != nil {
		return err
	}
	if err := b.firstLooks(ctx, s); err != nil {
		return err
	}
	var took []float64
	for round := range claimRounds {
		r := deliveries.ClaimRequest{Owner: "bench", Lease: time.Minute, Each: 4, Holds: func(string) bool { return false }}
		for i := range claimQueues {
			r.Subscriptions = append(r.Subscriptions, subscriptionID(round*claimQueues+i+1))
		}
		if err := fire(ctx, s.DB, round+1); err != nil { // for a hundred of them
			return err
		}
		began := time.Now()
		if _, _, err := s.DB.Due(ctx, claimLook, 15*time.Minute); err != nil {
			return err
		}
		looked := time.Since(began)
		claims, _, err := s.DB.ClaimDeliveries(ctx, r)
		if err != nil {
			return err
		}
		if len(claims) != claimQueues*r.Each {
			return fmt.Errorf("claimed %d deliveries, not %d", len(claims), claimQueues*r.Each)
		}
		took = append(took, harness.Milliseconds(time.Since(began)))
		if round == claimRounds/2 {
			b.Printf("a look takes %.1f ms, the claim after it %.1f ms", harness.Milliseconds(looked), took[round]-harness.Milliseconds(looked))
		}
	}
	b.Figure("claim_ms", harness.Median(took), "ms")
	return nil
}

// firstLooks lists all queues, as after a start.
func (b *bench) firstLooks(ctx context.Context, s *site) error {
	began, longest, listed := time.Now(), time.Duration(0), 0
	for {
		last := time.Now()
		due, next, err := s.DB.Due(ctx, claimLook, 15*time.Minute)
		if err != nil {
			return err
		}
		longest = max(longest, time.Since(last))
		if listed += len(due); next.IsZero() || next.After(time.Now()) {
			break
		}
	}
	if listed != claimEndpoints {
		return fmt.Errorf("%d queues are listed, not %d", listed, claimEndpoints)
	}
	b.Printf("the first look at all %d queues takes %.0f ms, in slices of which the longest takes %.0f ms",
		listed, harness.Milliseconds(time.Since(began)), harness.Milliseconds(longest))
	return nil
}

// subscriptionID returns the id of the nth subscription.
func subscriptionID(n int) string { return fmt.Sprintf("whs_%026d", n) }

// subscribe makes n subscriptions spread over accounts, the nth at target and n.
func (s *site) subscribe(ctx context.Context, n, accounts int, target string) error {
	_, err := s.SQL.ExecContext(ctx, `INSERT INTO subscriptions (id, account_id, key_id, environment, target_url, events, description, secret, created_at)
		SELECT 'whs_' || lpad(i::text, 26, '0'), 'acc_' || lpad((1 + i % $2::int)::text, 26, '0'), 'key_bench', 'live', $3::text || i,
			'["`+store.EventSentinelFired+`"]', '', repeat('0123456789abcdef', 4), $4 FROM generate_series(1, $1::int) i`,
		n, accounts, target, time.Now().UnixMicro())
	if err != nil {
		return fmt.Errorf("making subscriptions: %w", err)
	}
	return nil
}

// deliveries writes n deliveries that wait, as many for each of some subscriptions.
func (s *site) deliveries(ctx context.Context, subscriptions, n int) error {
	now := time.Now().UnixMicro()
	_, err := s.SQL.ExecContext(ctx, `INSERT INTO events (id, account_id, type, created_at, silenced, body)
		SELECT 'evt_' || lpad(i::text, 26, '0'), 'acc_' || lpad('1', 26, '0'), '`+store.EventSentinelFired+`', $2, 0, '{}' FROM generate_series(1, $1::int) i`,
		n/subscriptions, now)
	if err == nil {
		_, err = s.SQL.ExecContext(ctx, `INSERT INTO deliveries (id, event_id, subscription_id, state, attempts, tries_before, next_at, due_at, lease_owner, created_at, updated_at)
			SELECT 'dlv_' || lpad(i::text, 26, '0'), 'evt_' || lpad((1 + i / $2::int)::text, 26, '0'), 'whs_' || lpad((1 + i % $2::int)::text, 26, '0'),
				'pending', 0, 0, $3, $3, '', $3, $3 FROM generate_series(0, $1::int - 1) i`, n, subscriptions, now)
	}
	if err == nil {
		_, err = s.SQL.ExecContext(ctx, `ANALYZE deliveries, subscriptions, events`)
	}
	if err != nil {
		return fmt.Errorf("making deliveries: %w", err)
	}
	return nil
}
