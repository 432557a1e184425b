package fleet

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
	"partneredge/store/central"
)

// RegionConfig configures a Region.
type RegionConfig struct {
	Dir     string // of the databases and nodes; made when it is not there
	Modules string // directory of the nodes' modules
	Cache   string // directory of compiled modules
	Nodes   int
	Delay   time.Duration // between the origin and each node, one way

	// ChangeOrigin and ChangeNode, if set, change what the origin and each node are
	// started with.
	ChangeOrigin func(*origin.Config)
	ChangeNode   func(*node.Config)
}

// Region is an origin with one live account, and nodes each behind a relay of its
// own, all in this process.
type Region struct {
	DB      *central.DB
	Origin  *origin.Origin
	Nodes   []*node.Node
	Relays  []*wan.Relay
	Admin   *Admin
	Account string
	Client  *http.Client

	config RegionConfig
	log    *slog.Logger
}

// AnyTarget lets every webhook target pass: none is called.
type AnyTarget struct{}

// Check returns no reason.
func (AnyTarget) Check(context.Context, string) (string, error) { return "", nil }

// StartRegion returns a running Region. Its caller stops it.
func StartRegion(ctx context.Context, c RegionConfig) (_ *Region, err error) {
	r := &Region{
		Client: newClient(), config: c,
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Stop())
		}
	}()
	if err = r.startOrigin(ctx); err != nil {
		return nil, err
	}
	for i := range c.Nodes { // one by one: the first fills the cache
		if err = r.startNode(ctx, fmt.Sprint("region-", i)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Region) startOrigin(ctx context.Context) (err error) {
	if err := os.MkdirAll(r.config.Dir, 0o700); err != nil {
		return err
	}
	if r.DB, err = central.Open(ctx, central.Config{URL: filepath.Join(r.config.Dir, "origin.db"), Log: r.log}); err != nil {
		return err
	}
	c := origin.Config{Dir: filepath.Join(r.config.Dir, "origin"), DB: r.DB, Guard: AnyTarget{}, Log: r.log}
	if r.config.ChangeOrigin != nil {
		r.config.ChangeOrigin(&c)
	}
	if r.Origin, err = origin.Start(ctx, c); err != nil {
		return err
	}
	r.Admin = &Admin{Client: adminapi.Client{URL: r.Origin.AdminURL(), Token: r.Origin.Token(), HTTP: r.Client}}
	r.Account, err = r.Admin.Account(ctx)
	return err
}

func (r *Region) startNode(ctx context.Context, name string) error {
	target, err := url.Parse(r.Origin.NATSURL())
	if err != nil {
		return err
	}
	relay, err := wan.Start(context.WithoutCancel(ctx), wan.Config{Target: target.Host, Delay: r.config.Delay})
	if err != nil {
		return err
	}
	r.Relays = append(r.Relays, relay)
	dir := filepath.Join(r.config.Dir, name)
	credentials, err := r.Admin.Enrol(ctx, dir, name)
	if err != nil {
		return err
	}
	c := node.Config{
		Data: dir, Cache: r.config.Cache, Modules: r.config.Modules, Region: name,
		Origin: "nats://" + relay.Addr(), Credentials: credentials, Log: r.log,
	}
	if r.config.ChangeNode != nil {
		r.config.ChangeNode(&c)
	}
	n, err := node.Start(ctx, c)
	if err == nil {
		r.Nodes = append(r.Nodes, n)
	}
	return err
}

// Stop stops what runs, within 20 s.
func (r *Region) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var group errgroup.Group
	for _, n := range r.Nodes {
		group.Go(func() error { return n.Stop(ctx) })
	}
	err := group.Wait()
	for _, relay := range r.Relays {
		relay.Stop()
	}
	if r.Origin != nil {
		err = errors.Join(err, r.Origin.Stop(ctx))
	}
	if r.DB != nil {
		err = errors.Join(err, r.DB.Close())
	}
	if err != nil {
		return fmt.Errorf("stop region: %w", err)
	}
	return nil
}

func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxConnsPerHost: 256},
		Timeout:   20 * time.Second,
	}
}

// API is the path prefix of the partner API.
const API = "/api/v2/public/"

// Send sends a request and returns the answer's status and body. body is nil for a
// GET.
func Send(ctx context.Context, client *http.Client, url string, header http.Header, body io.Reader) (status int, answer []byte, err error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return 0, nil, err
	}
	req.Header = header
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// Bearer returns the header that carries a partner's key.
func Bearer(key string) http.Header { return http.Header{"Authorization": {"Bearer " + key}} }

// Get asks a node; status is 0 when there is no answer.
func (r *Region) Get(ctx context.Context, n *node.Node, path, key string) (status int, answer []byte) {
	status, answer, _ = Send(ctx, r.Client, n.URL()+API+path, Bearer(key), nil)
	return status, answer
}

// Warm makes every node hold the keys, and what path shows.
func (r *Region) Warm(ctx context.Context, path string, keys ...string) error {
	var group errgroup.Group
	for _, n := range r.Nodes {
		group.Go(func() error {
			for _, key := range keys {
				if status, _ := r.Get(ctx, n, path, key); status != http.StatusOK {
					return fmt.Errorf("warming a node up: status %d", status)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
