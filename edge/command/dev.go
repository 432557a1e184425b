package command

import (
	"cmp"
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

	"aead.dev/minisign"
	"github.com/spf13/cobra"

	"partneredge/edge/adminapi"
	"partneredge/edge/closers"
	"partneredge/edge/dev"
	"partneredge/edge/gotuning"
	"partneredge/edge/hint"
	"partneredge/edge/node"
	"partneredge/edge/output"
	"partneredge/edge/service"
	"partneredge/edge/tracing"
	"partneredge/edge/wan"
	"partneredge/store/durable"
)

// devReady is the content of DIR/dev.json, which is there while everything is up.
type devReady struct {
	Origin    devOrigin   `json:"origin"`
	Nodes     []nodeReady `json:"nodes"`
	AccountID string      `json:"account_id"`
	Keys      dev.Keys    `json:"keys"`
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
	releaseKeys          []minisign.PublicKey // of releases; those of the flags, or of --data
	compiling            *output.Compiling
	// Of node.Config; 0: its default.
	readOrigin, writeOrigin, moduleCPU time.Duration
}

func newDev() *cobra.Command {
	c := devConfig{regions: names{"local"}}
	var logs logFlags
	cmd := newCommand("dev", "run an origin and nodes in one process, on loopback, ready to be tried", func(cmd *cobra.Command, _ []string) (err error) {
		if c.Log, err = logs.logger(cmd); err != nil {
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
	flags.StringVar(&c.AdminAddr, "admin", "127.0.0.1:8090", "`ADDR` (host:port) of the admin API; with --port 0 any free port")
	flags.Var(&c.regions, "regions", "`NAMES` by comma: one node in each region")
	flags.DurationVar(&c.wanDelay, "wan-delay", 0, "`DURATION` that each way between a node and the origin takes")
	flags.StringVar(&c.database, "database", "", "postgres://… `URL` (default: SQLite in DIR)")
	flags.StringVar(&c.modules, "modules", "", "`DIR` of the modules and their manifests (default: modules in ../lib/edge, or beside the program)")
	flags.StringVar(&c.cache, "cache", "", "`DIR` of compiled modules (default: DIR/cache of --data)")
	c.releases.register(flags, "DIR/release.pub of --data, made with its private key")
	c.webhookFlags(flags)
	c.traces.register(flags)
	logs.register(flags, slog.LevelWarn)
	return cmd
}

// complete validates the flags and completes the configuration.
func (c *devConfig) complete(cmd *cobra.Command) (err error) {
	if err := cmp.Or(c.traces.validate(cmd), filled(cmd, "release-keys", "min-release")); err != nil {
		return err
	}
	switch {
	case c.port < 0 || c.port+len(c.regions) > 1<<16:
		return misused(cmd, "--port %d is no port", c.port)
	case c.wanDelay < 0:
		return misused(cmd, "--wan-delay must not be negative")
	}
	if c.port == 0 && !cmd.Flags().Changed("admin") {
		c.AdminAddr = "127.0.0.1:0"
	}
	c.Build = cmd.Root().Version
	c.compiling = output.NewCompiling(cmd.OutOrStdout())
	c.modules, err = modulesDir(c.modules)
	return err
}

// listen returns the address of the partner API of a node, by the number of its region.
func (c *devConfig) listen(i int) string {
	port := 0
	if c.port != 0 {
		port = c.port + i
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

func runDev(ctx context.Context, c devConfig, stdout io.Writer) error {
	return service.Run(ctx, service.Config{Dir: c.data, File: "dev.json", Stdout: stdout}, func(started *closers.Stack) (ready any, greeting string, err error) {
		env := filepath.Join(c.data, "env")
		_ = os.Remove(env) // of a process that was killed
		started.AddFunc(gotuning.Start(ctx))
		d, err := startDev(ctx, c)
		if err != nil {
			return nil, "", err
		}
		started.Add(d.stop)
		started.AddFunc(func() { _ = os.Remove(env) })
		info := d.ready()
		if err := durable.WriteFile(env, shellEnv(info), 0o600); err != nil {
			return nil, "", fmt.Errorf("writing %s: %w", env, err)
		}
		return info, devGreeting(info, env), nil
	})
}

// devProcess is an origin and nodes in one process.
type devProcess struct {
	origin  *originProcess
	relays  []*wan.Relay // one for each node, with --wan-delay
	nodes   []*node.Node
	regions names
	account dev.Account
	started closers.Stack
}

// startDev starts the origin, then the nodes, then makes an account with keys.
func startDev(ctx context.Context, c devConfig) (_ *devProcess, err error) {
	d := &devProcess{regions: c.regions}
	defer func() {
		if err != nil {
			c.compiling.Done(false)
			_ = d.stop(ctx) // why it was not started matters more
		}
	}()
	c.Dir = filepath.Join(c.data, "origin")
	unlock, err := service.Lock(c.Dir) // which edge origin may run over as well
	if err != nil {
		return nil, err
	}
	d.started.AddFunc(unlock)
	c.cache = cmp.Or(c.cache, filepath.Join(c.data, "cache"))
	if d.origin, err = startOrigin(ctx, c.originConfig); err != nil {
		return nil, portHint(err)
	}
	d.started.Add(d.origin.stop)
	if c.releases.keyFile != "" {
		c.releaseKeys, err = c.releases.keys()
	} else {
		c.releaseKeys, err = dev.ReleaseKeys(c.data)
	}
	if err != nil {
		return nil, err
	}
	admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token(), HTTP: direct(nil)}
	for i, region := range c.regions { // before the first node compiles the modules of all
		if err := node.CheckListen(c.listen(i)); err != nil {
			return nil, portHint(fmt.Errorf("region %s: %w", region, err))
		}
	}
	for i, region := range c.regions {
		if err := d.startNode(ctx, c, admin, i, region); err != nil {
			return nil, portHint(fmt.Errorf("region %s: %w", region, err))
		}
	}
	c.compiling.Done(true)
	d.account, err = dev.OpenAccount(ctx, admin, filepath.Join(c.data, "keys.json"))
	return d, err
}

func (d *devProcess) startNode(ctx context.Context, c devConfig, admin *adminapi.Client, i int, region string) error {
	dir := filepath.Join(c.data, "nodes", region)
	credentials, err := dev.Enrol(ctx, admin, dir, region)
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
		d.started.AddFunc(relay.Stop)
		d.relays = append(d.relays, relay)
		target.Host = relay.Addr()
		address = target.String()
	}
	log := c.Log.With("in", region)
	about := tracing.Config{Service: "edge-node", Release: c.Build, Region: region, Log: log}
	tracer, err := c.traces.start(ctx, about, &d.started)
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, node.Config{
		ReleaseKeys: c.releaseKeys, MinRelease: c.releases.least,
		Data: dir, Region: region, Cache: c.cache, Modules: c.modules,
		Listen: c.listen(i),
		Origin: address, Credentials: credentials,
		Version: c.Build, Progress: c.compiling.Module, CheckDial: newCheckDial(),
		ReadOrigin: c.readOrigin, WriteOrigin: c.writeOrigin, ModuleCPU: c.moduleCPU, HandshakeTimeout: c.HandshakeTimeout,
		Log: log, Tracer: tracer,
	})
	if err != nil {
		return nodeHint(err)
	}
	d.started.Add(n.Stop)
	d.nodes = append(d.nodes, n)
	return nil
}

// portHint adds advice to the error of a port that is taken.
func portHint(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" {
		return hint.Add(err, "is it running already? --port 0 takes free ports")
	}
	return err
}

// stop ends the nodes first, so that the origin can still commit their leads. It
// may be called twice.
func (d *devProcess) stop(ctx context.Context) error { return service.Stop(ctx, &d.started) }

func (d *devProcess) ready() devReady {
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

// devGreeting names the addresses and the keys, and what to try first.
func devGreeting(info devReady, env string) string {
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

// shellEnv returns the addresses and the keys as variables of a shell. The node's address
// is there twice: the partners' guide calls it EDGE_URL, since npm sets NODE to the path of
// its own program.
func shellEnv(info devReady) []byte {
	return fmt.Appendf(nil, "NODE=%[1]s\nEDGE_URL=%[1]s\nADMIN=%s\nACCOUNT=%s\nLIVE=%s\nTEST=%s\nTOKEN=%s\n",
		info.Nodes[0].BaseURL, info.Origin.AdminURL, info.AccountID, info.Keys.Live, info.Keys.Test, info.Origin.AdminToken)
}
