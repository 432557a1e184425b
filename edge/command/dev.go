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

	"github.com/spf13/cobra"

	"partneredge/edge/adminapi"
	"partneredge/edge/command/output"
	"partneredge/edge/gotuning"
	"partneredge/edge/node"
	"partneredge/edge/wan"
	"partneredge/store/durable"
)

// devReady is the content of DIR/dev.json, which is there while everything is up.
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
	originConfig
	data, modules, cache string
	port                 int // of the first node's partner API; the next ones follow. 0: free ones
	regions              names
	wanDelay             time.Duration
	releases             releaseFlags
	compiling            *output.Compiling
}

func newDev() *cobra.Command {
	c := devConfig{regions: names{"local"}}
	var logs logFlags
	cmd := newCommand("dev", "run an origin and nodes in one process, on loopback, ready to be tried", func(cmd *cobra.Command, _ []string) (err error) {
		if c.log, err = logs.logger(cmd); err != nil {
			return err
		}
		if err := c.complete(cmd); err != nil {
			return err
		}
		return runDev(cmd.Context(), c, cmd.OutOrStdout())
	})
	flags := cmd.Flags()
	flags.StringVar(&c.data, "data", "data", "`DIR` that keeps everything; the same one gives the same keys")
	flags.IntVar(&c.port, "port", 8080, "`PORT` of the first node's partner API, the next nodes' follow; 0: any free ones")
	flags.StringVar(&c.admin, "admin", "127.0.0.1:8090", "`ADDR` (host:port) of the admin API; with --port 0 any free port")
	flags.Var(&c.regions, "regions", "`NAMES` by comma: one node in each region")
	flags.DurationVar(&c.wanDelay, "wan-delay", 0, "`DURATION` that each way between a node and the origin takes")
	flags.StringVar(&c.database, "database", "", "postgres://… `URL` (default: SQLite in DIR)")
	flags.StringVar(&c.modules, "modules", "", "`DIR` of the modules and their manifests (default: modules beside the program)")
	flags.StringVar(&c.cache, "cache", "", "`DIR` of compiled modules (default: DIR/cache of --data)")
	c.releases.register(flags)
	c.webhookFlags(flags)
	c.traces.register(flags)
	logs.register(flags, slog.LevelWarn)
	return cmd
}

// complete validates the flags and completes the configuration.
func (c *devConfig) complete(cmd *cobra.Command) (err error) {
	if err := c.traces.validate(cmd); err != nil {
		return err
	}
	switch {
	case c.port < 0 || c.port+len(c.regions) > 1<<16:
		return misused(cmd, "--port %d is no port", c.port)
	case c.wanDelay < 0:
		return misused(cmd, "--wan-delay must not be negative")
	}
	if c.port == 0 && !cmd.Flags().Changed("admin") {
		c.admin = "127.0.0.1:0"
	}
	c.version = cmd.Root().Version
	c.compiling = output.NewCompiling(cmd.OutOrStdout())
	c.modules, err = modulesDir(c.modules)
	return err
}

func runDev(ctx context.Context, c devConfig, stdout io.Writer) (err error) {
	unlock, err := lockData(c.data, "dev.json", "env")
	if err != nil {
		return err
	}
	defer unlock()
	defer gotuning.Start(ctx)()
	d, err := startDev(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(ctx)) }()
	ready, env := filepath.Join(c.data, "dev.json"), filepath.Join(c.data, "env")
	defer os.Remove(ready)
	defer os.Remove(env)
	info := d.ready()
	if err := errors.Join(durable.WriteFile(env, shellEnv(info), 0o600), writeJSON(ready, info)); err != nil {
		return fmt.Errorf("writing %s: %w", ready, err)
	}
	fmt.Fprint(stdout, greeting(info, env))
	<-ctx.Done()
	return nil
}

// dev is an origin and nodes in one process.
type dev struct {
	origin  *originProcess
	relays  []*wan.Relay // one for each node, with --wan-delay
	nodes   []*node.Node
	traces  []func() error // end the nodes' tracers
	regions names
	account devAccount
}

// startDev starts the origin, then the nodes, then makes an account with keys.
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
	if d.origin, err = startOrigin(ctx, c.originConfig); err != nil {
		return nil, portHint(err)
	}
	admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
	for i, region := range c.regions {
		if err := d.startNode(ctx, c, admin, i, region); err != nil {
			return nil, portHint(fmt.Errorf("region %s: %w", region, err))
		}
	}
	c.compiling.Done(true)
	d.account, err = openDevAccount(ctx, admin, filepath.Join(c.data, "keys.json"))
	return d, err
}

func (d *dev) startNode(ctx context.Context, c devConfig, admin *adminapi.Client, i int, region string) error {
	dir := filepath.Join(c.data, "nodes", region)
	credentials, err := enrol(ctx, admin, dir, region)
	if err != nil {
		return err
	}
	address := d.origin.NATSURL()
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
	tracer, stop, err := c.traces.start(ctx, "edge-node", c.version, region, log)
	if err != nil {
		return err
	}
	d.traces = append(d.traces, stop)
	n, err := node.Start(ctx, node.Config{
		ReleaseKeys: keys, MinRelease: c.releases.least,
		Data: dir, Region: region, Cache: c.cache, Modules: c.modules,
		Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Origin: address, Credentials: credentials,
		Version: c.version, Progress: c.compiling.Module, CheckDial: newCheckDial(),
		Log: log, Tracer: tracer,
	})
	if err != nil {
		return err
	}
	d.nodes = append(d.nodes, n)
	return nil
}

// portHint adds advice to the error of a port that is taken.
func portHint(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" {
		return hint(err, "is it running already? --port 0 takes free ports")
	}
	return err
}

// stop ends the nodes first, so that the origin can still commit their leads. It
// may be called twice.
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
	if d.origin != nil {
		errs = append(errs, d.origin.stop(ctx))
	}
	return errors.Join(errs...)
}

func (d *dev) ready() devReady {
	info := devReady{
		Origin: devOrigin{
			AdminURL: d.origin.AdminURL(), AdminToken: d.origin.Token(),
			ConsoleURL: d.origin.AdminURL() + "/console/", NATSURL: d.origin.NATSURL(),
		},
		AccountID: d.account.AccountID,
		Keys:      d.account.Keys,
	}
	for i, n := range d.nodes {
		info.Nodes = append(info.Nodes, nodeReady{d.regions[i], n.URL(), n.MetricsURL() + "/metrics"})
	}
	return info
}

// greeting names the addresses and the keys, and what to try first.
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

// shellEnv returns the addresses and the keys as variables of a shell.
func shellEnv(info devReady) []byte {
	return fmt.Appendf(nil, "NODE=%s\nADMIN=%s\nACCOUNT=%s\nLIVE=%s\nTEST=%s\nTOKEN=%s\n",
		info.Nodes[0].BaseURL, info.Origin.AdminURL, info.AccountID, info.Keys.Live, info.Keys.Test, info.Origin.AdminToken)
}
