package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"partneredge/edge/adminapi"
	"partneredge/edge/node"
	"partneredge/edge/origin"
	"partneredge/edge/wan"
	"partneredge/scripts/bench/fleet"
	"partneredge/store/central"
	"partneredge/store/local"
)

// region is an origin, and nodes each behind a relay of its own.
type region struct {
	db      *central.DB
	origin  *origin.Origin
	nodes   []*node.Node
	relays  []*wan.Relay
	admin   *fleet.Admin
	account string
	client  *http.Client
}

// anyTarget lets every webhook target pass: none is called.
type anyTarget struct{}

func (anyTarget) Check(context.Context, string) (string, error) { return "", nil }

func startRegion(ctx context.Context, b *bench) (_ *region, err error) {
	r := &region{client: newClient()}
	defer func() {
		if err != nil {
			r.stop()
		}
	}()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	dir := filepath.Join(b.Dir, "origin")
	if r.db, err = central.Open(ctx, central.Config{URL: filepath.Join(b.Dir, "origin.db"), Log: log}); err != nil {
		return nil, err
	}
	if r.origin, err = origin.Start(ctx, origin.Config{Dir: dir, DB: r.db, Guard: anyTarget{}, Log: log}); err != nil {
		return nil, err
	}
	r.admin = &fleet.Admin{Client: adminapi.Client{URL: r.origin.AdminURL(), Token: r.origin.Token(), HTTP: r.client}}
	if r.account, err = r.admin.Account(ctx); err != nil {
		return nil, err
	}
	target, err := url.Parse(r.origin.NATSURL())
	if err != nil {
		return nil, err
	}
	var starting []func() error
	for i := range b.nodes {
		relay, err := wan.Start(context.WithoutCancel(ctx), wan.Config{Target: target.Host, Delay: delay})
		if err != nil {
			return nil, err
		}
		r.relays = append(r.relays, relay)
		dir := filepath.Join(b.Dir, fmt.Sprint("node", i))
		credentials, err := r.admin.Enrol(ctx, dir, fmt.Sprint("region-", i))
		if err != nil {
			return nil, err
		}
		starting = append(starting, func() error {
			n, err := node.Start(ctx, node.Config{
				Data: dir, Cache: b.cache, Modules: filepath.Join(filepath.Dir(b.edge), "modules"), Region: fmt.Sprint("region-", i),
				Origin: "nats://" + relay.Addr(), Credentials: credentials, Log: log,
				// All requests come from one address, and revoked keys are used again.
				Lockout: local.LockoutRules{Failures: 1 << 30},
			})
			if err == nil {
				r.nodes = append(r.nodes, n)
			}
			return err
		})
	}
	for _, start := range starting { // one by one: the first fills the cache
		if err := start(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *region) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var group errgroup.Group
	for _, n := range r.nodes {
		group.Go(func() error { return n.Stop(ctx) })
	}
	err := group.Wait()
	for _, relay := range r.relays {
		relay.Stop()
	}
	if r.origin != nil {
		err = errors.Join(err, r.origin.Stop(ctx))
	}
	if r.db != nil {
		err = errors.Join(err, r.db.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-sync: stopping:", err)
	}
}

func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256},
		Timeout:   20 * time.Second,
	}
}

const api = "/api/v2/public/"

// send sends a request and returns the answer's status and body. body is nil for a
// GET.
func (r *region) send(ctx context.Context, url string, header http.Header, body io.Reader) (status int, answer []byte, err error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, nil, err
	}
	req.Header = header
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// bearer returns the header that carries a partner's key.
func bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// get asks a node; status is 0 when there is no answer.
func (r *region) get(ctx context.Context, n *node.Node, path, key string) (status int, answer []byte) {
	status, answer, _ = r.send(ctx, n.URL()+api+path, bearer(key), nil)
	return status, answer
}

// warm has every node hold the key, and what path shows.
func (r *region) warm(ctx context.Context, path string, keys ...string) error {
	var group errgroup.Group
	for _, n := range r.nodes {
		group.Go(func() error {
			for _, key := range keys {
				if status, _ := r.get(ctx, n, path, key); status != http.StatusOK {
					return fmt.Errorf("warming a node up: status %d", status)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
