package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/scripts/bench/harness"
)

const (
	ingestAccounts = 1000
	ingestWriters  = 256
	ingestClients  = 16 // of pgbench
	ingestTakes    = 3 * time.Second
	ingestRounds   = 3
)

// ingestScript is pgbench's transaction: the rows of one firing and its event.
const ingestScript = `\set account random(1, %d)
BEGIN;
INSERT INTO firings (id, account_id, name, triggered_at, data, action) VALUES ('fir_' || gen_random_uuid(), 'acc_' || lpad(:account::text, 26, '0'), 'price_drop', (extract(epoch from clock_timestamp()) * 1e6)::bigint * 16 + :client_id, '{}', 'notified_agent_and_client');
INSERT INTO events (id, account_id, type, created_at, silenced, body) VALUES ('evt_' || gen_random_uuid(), 'acc_' || lpad(:account::text, 26, '0'), 'sentinel.fired', 1, 0, '%s');
COMMIT;
`

// ingest measures how many firings a second are written with their events, over how
// often pgbench writes the same two rows in a transaction of their own with 16 clients.
// What it writes with as many clients as there are writers, or as PostgreSQL takes, is
// printed beside it. All take turns.
func (b *bench) ingest(ctx context.Context, s *site) error {
	if err := s.accounts(ctx, ingestAccounts); err != nil {
		return err
	}
	body := fmt.Sprintf("%0256d", 0) // about as long as the event of a firing
	script := filepath.Join(s.dir, "ingest.sql")
	if err := os.WriteFile(script, fmt.Appendf(nil, ingestScript, ingestAccounts, body), 0o600); err != nil {
		return err
	}
	var most int
	if err := s.SQL.QueryRowContext(ctx, `SELECT current_setting('max_connections')::int - 32`).Scan(&most); err != nil {
		return err
	}
	most = min(most, ingestWriters)
	var ours, theirs, asMany []float64
	for range ingestRounds {
		n, err := s.firings(ctx)
		if err != nil {
			return err
		}
		ours = append(ours, n)
		if n, err = pgbench(ctx, s.URL, script, ingestClients); err != nil {
			return err
		}
		theirs = append(theirs, n)
		if n, err = pgbench(ctx, s.URL, script, most); err != nil {
			return err
		}
		asMany = append(asMany, n)
	}
	b.Printf("%.0f firings a second of %d writers; pgbench has %.0f transactions with %d clients, %.0f with %d",
		ours, ingestWriters, theirs, ingestClients, asMany, most)
	b.Figure("ingest_share", harness.Ratio(ours, theirs), "ratio")
	return nil
}

// firings returns how many firings a second are written.
func (s *site) firings(ctx context.Context) (float64, error) {
	var n atomic.Int64
	writing, ctx := errgroup.WithContext(ctx)
	began := time.Now()
	for w := range ingestWriters {
		writing.Go(func() error {
			for i := w; time.Since(began) < ingestTakes; i += 37 {
				if err := fire(ctx, s.DB, i%ingestAccounts+1); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err := writing.Wait()
	return float64(n.Load()) / time.Since(began).Seconds(), err
}

// pgbench returns the transactions a second of a script with so many clients.
func pgbench(ctx context.Context, schema, script string, clients int) (float64, error) {
	u, err := url.Parse(schema)
	if err != nil {
		return 0, err
	}
	q := u.Query()
	path := q.Get("search_path") // which libpq takes from elsewhere
	q.Del("search_path")
	u.RawQuery = q.Encode()

	command := exec.CommandContext(ctx, "pgbench", "--no-vacuum", "--client="+strconv.Itoa(clients), "--jobs=2", "--protocol=prepared",
		"--time="+strconv.Itoa(int(ingestTakes.Seconds())), "--file="+script, u.String())
	command.Env = append(os.Environ(), "PGOPTIONS=-c search_path="+path)
	out, err := command.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, out)
	}

	var tps float64
	for line := range strings.Lines(string(out)) {
		if _, err := fmt.Sscanf(line, "tps = %g", &tps); err == nil {
			return tps, nil
		}
	}
	return 0, fmt.Errorf("pgbench printed no rate: %s", out)
}
