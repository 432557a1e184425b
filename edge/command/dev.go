package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"partneredge/edge/gotuning"
	"partneredge/edge/node"
	"partneredge/edge/wan"
)

// devReady is DIR/dev.json, there while all of it is up.
type devReady struct {
	Origin    devOrigin   `json:"origin"`
	Nodes     []nodeReady `json:"nodes"`
	AccountID string      `json:"account_id"`
	Keys      devKeys     `json:"keys"`
}

type devOrigin struct {
	AdminURL   string `json:"admin_url"`
	AdminToken string `json:"admin_token"`
	ConsoleURL string `json:"console_url"`
	NATSURL    string `json:"nats_url"`
}

type devConfig struct {
	centreConfig
	data, modules, cache string
	port                 int // of the first node's partner API; the next ones follow. 0: free ones
	regions              names
	wanDelay             time.Duration
	releases             releaseTrust
	progress             *progress
}

func runDev(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := newFlags("dev", "edge dev [flags]", stderr)
	c := devConfig{regions: names{"local"}}
	f.StringVar(&c.data, "data", "data", "`DIR` that keeps everything; the same one gives the same keys")
	f.IntVar(&c.port, "port", 8080, "`PORT` of the first node's partner API, the next nodes' follow; 0: any free ones")
	f.StringVar(&c.admin, "admin", "127.0.0.1:8090", "`ADDR` (host:port) of the admin API; with --port 0 any free port")
	f.Var(&c.regions, "regions", "`NAMES` by comma: one node in each region")
	f.DurationVar(&c.wanDelay, "wan-delay", 0, "`DURATION` that each way between a node and the origin takes")
	f.StringVar(&c.database, "database", "", "postgres://… `URL` (default: SQLite in DIR)")
	f.StringVar(&c.modules, "modules", "", "`DIR` of the modules and their manifests (default: modules beside the program)")
	f.StringVar(&c.cache, "cache", "", "`DIR` of compiled modules (default: DIR/cache of --data)")
	c.releases.flags(f)
	c.webhookFlags(f)
	c.traces.traceFlags(f)
	f.logging(slog.LevelWarn)
	if err := f.parse(args); err != nil {
		return err
	}
	if err := c.traces.check(f); err != nil {
		return err
	}
	switch {
	case c.port < 0 || c.port+len(c.regions) > 1<<16:
		return usagef(f.hint(), "dev: --port %d is no port", c.port)
	case c.wanDelay < 0:
		return usagef(f.hint(), "dev: --wan-delay must not be negative")
	}
	if c.port == 0 && !f.given("admin") {
		c.admin = "127.0.0.1:0"
	}
	if c.modules, err = modulesDir(c.modules); err != nil {
		return err
	}
	c.log = f.logger()
	c.progress = newProgress(stdout)

	release, err := lockDir(c.data)
	if err != nil {
		return err
	}
	defer release()
	ready, env := filepath.Join(c.data, "dev.json"), filepath.Join(c.data, "env")
	withdraw := func() {
		_ = os.Remove(ready)
		_ = os.Remove(env)
	}
	withdraw() // an earlier process may have been killed
	defer gotuning.Start(ctx)()
	d, err := startDev(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(ctx)) }()
	defer withdraw()
	info := d.ready()
	if err := errors.Join(writeFile(env, shellEnv(info)), writeJSON(ready, info)); err != nil {
		return fmt.Errorf("writing %s: %w", ready, err)
	}
	fmt.Fprint(stdout, greeting(info, env))
	<-ctx.Done()
	return nil
}

// dev is an origin and nodes in one process.
type dev struct {
	centre  *centre
	relays  []*wan.Relay // one a node, with --wan-delay
	nodes   []*node.Node
	traces  []func() error // end the nodes' tracers
	regions names
	tenant  tenant
}

// startDev brings up the origin, then the nodes, then an account with keys.
func startDev(ctx context.Context, c devConfig) (_ *dev, err error) {
	d := &dev{regions: c.regions}
	defer func() {
		if err != nil {
			_ = d.stop(ctx) // why it was not started matters more
		}
	}()
	c.dir = filepath.Join(c.data, "origin")
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	if c.cache == "" {
		c.cache = filepath.Join(c.data, "cache")
	}
	if c.natsListen == "" {
		c.natsListen = "127.0.0.1:0"
	}
	if d.centre, err = startCentre(ctx, c.centreConfig); err != nil {
		return nil, portHint(err)
	}
	admin := newAdminClient(d.centre.AdminURL(), d.centre.Token())
	for i, region := range c.regions {
		if err := d.startNode(ctx, c, admin, i, region); err != nil {
			return nil, portHint(fmt.Errorf("region %s: %w", region, err))
		}
	}
	c.progress.done(true)
	d.tenant, err = openTenant(ctx, admin, filepath.Join(c.data, "keys.json"))
	return d, err
}

func (d *dev) startNode(ctx context.Context, c devConfig, admin *adminClient, i int, region string) error {
	dir := filepath.Join(c.data, "nodes", region)
	credentials, err := enrol(ctx, admin, dir, region)
	if err != nil {
		return err
	}
	address := d.centre.NATSURL()
	if c.wanDelay > 0 {
		target, err := url.Parse(address)
		if err != nil {
			return err
		}
		relay, err := wan.Start(context.WithoutCancel(ctx), wan.Config{Target: target.Host, Delay: c.wanDelay})
		if err != nil {
			return err
		}
		d.relays = append(d.relays, relay)
		target.Host = relay.Addr()
		address = target.String()
	}
	port := 0
	if c.port != 0 {
		port = c.port + i
	}
	keys, err := c.releases.keys()
	if err != nil {
		return err
	}
	log := c.log.With("in", region)
	tracer, stop, err := c.traces.start(ctx, "edge-node", region, log)
	if err != nil {
		return err
	}
	d.traces = append(d.traces, stop)
	n, err := node.Start(ctx, node.Config{
		ReleaseKeys: keys, MinRelease: c.releases.least,
		Data: dir, Region: region, Cache: c.cache, Modules: c.modules,
		Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Origin: address, Credentials: credentials,
		Version: version, Progress: c.progress.module, CheckDial: checkDial(),
		Log: log, Tracer: tracer,
	})
	if err != nil {
		return err
	}
	d.nodes = append(d.nodes, n)
	return nil
}

// portHint says what to do when a port is taken.
func portHint(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" {
		return hint(err, "is it running already? --port 0 takes free ports")
	}
	return err
}

// stop ends the nodes first, so that they hand over what they have. It may be
// called twice.
func (d *dev) stop(ctx context.Context) error {
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	var errs []error
	for _, n := range d.nodes {
		errs = append(errs, n.Stop(stopping))
	}
	for _, stop := range d.traces {
		errs = append(errs, stop())
	}
	for _, r := range d.relays {
		r.Stop()
	}
	if d.centre != nil {
		errs = append(errs, d.centre.stop(ctx))
	}
	return errors.Join(errs...)
}

func (d *dev) ready() devReady {
	info := devReady{
		Origin: devOrigin{
			AdminURL: d.centre.AdminURL(), AdminToken: d.centre.Token(),
			ConsoleURL: d.centre.AdminURL() + "/console/", NATSURL: d.centre.NATSURL(),
		},
		AccountID: d.tenant.AccountID,
		Keys:      d.tenant.Keys,
	}
	for i, n := range d.nodes {
		info.Nodes = append(info.Nodes, nodeReady{d.regions[i], n.URL(), n.MetricsURL() + "/metrics"})
	}
	return info
}

// greeting is what a person is shown who has just started it.
func greeting(info devReady, env string) string {
	text := ""
	line := func(name, value string) { text += fmt.Sprintf("  %-12s %s\n", name, value) }
	text += "\nPartner Edge is up. Ctrl-C stops it.\n\n"
	for _, n := range info.Nodes {
		line("node "+n.Region, n.BaseURL)
		line("  reference", n.BaseURL+"/docs")
		line("  metrics", n.MetricsURL)
	}
	line("admin API", info.Origin.AdminURL+"/admin/v1")
	line("console", info.Origin.ConsoleURL)
	line("NATS", info.Origin.NATSURL)
	text += "\n"
	line("live key", info.Keys.Live)
	line("test key", info.Keys.Test)
	text += fmt.Sprintf("\nTry this, or `. %s` and the tour in README.md:\n\n  curl -i %s/api/v2/public/agents/me -H 'Authorization: Bearer %s'\n\n",
		env, info.Nodes[0].BaseURL, info.Keys.Live)
	return text
}

// shellEnv is a file for a shell to read: where things are, and the keys.
func shellEnv(info devReady) []byte {
	return fmt.Appendf(nil, "NODE=%s\nADMIN=%s\nACCOUNT=%s\nLIVE=%s\nTEST=%s\nTOKEN=%s\n",
		info.Nodes[0].BaseURL, info.Origin.AdminURL, info.AccountID, info.Keys.Live, info.Keys.Test, info.Origin.AdminToken)
}
