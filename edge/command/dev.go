package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"aead.dev/minisign"
	"github.com/spf13/cobra"

	"partneredge/edge/adminapi"
	"partneredge/edge/closers"
	"partneredge/edge/gotuning"
	"partneredge/edge/node"
	"partneredge/edge/output"
	"partneredge/edge/release"
	"partneredge/edge/tracing"
	"partneredge/edge/wan"
	"partneredge/store"
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
	releaseKeys          []minisign.PublicKey // of releases; those of the flags or devSigner's
	compiling            *output.Compiling
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
		c.AdminAddr = "127.0.0.1:0"
	}
	c.Build = cmd.Root().Version
	c.compiling = output.NewCompiling(cmd.OutOrStdout())
	c.modules, err = modulesDir(c.modules)
	return err
}

func runDev(ctx context.Context, c devConfig, stdout io.Writer) error {
	return serve(ctx, c.data, "dev.json", stdout, func(started *closers.Stack) (ready any, greeting string, err error) {
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

// dev is an origin and nodes in one process.
type dev struct {
	origin  *originProcess
	relays  []*wan.Relay // one for each node, with --wan-delay
	nodes   []*node.Node
	regions names
	account devAccount
	started closers.Stack
}

// startDev starts the origin, then the nodes, then makes an account with keys.
func startDev(ctx context.Context, c devConfig) (_ *dev, err error) {
	d := &dev{regions: c.regions}
	defer func() {
		if err != nil {
			_ = d.stop(ctx) // why it was not started matters more
		}
	}()
	c.Dir = filepath.Join(c.data, "origin")
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	if c.cache == "" {
		c.cache = filepath.Join(c.data, "cache")
	}
	if d.origin, err = startOrigin(ctx, c.originConfig); err != nil {
		return nil, portHint(err)
	}
	d.started.Add(d.origin.stop)
	if c.releaseKeys, err = c.trusted(); err != nil {
		return nil, err
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

// trusted returns the keys of releases that the nodes run: those of --release-keys, or
// one of their own in DIR/release.key and DIR/release.pub, which the first start makes
// without a password. That is fit for development and for nothing else.
func (c *devConfig) trusted() ([]minisign.PublicKey, error) {
	if c.releases.keyFile != "" {
		return c.releases.keys()
	}
	public := filepath.Join(c.data, "release.pub")
	keys, err := release.ReadKeys(public)
	if !errors.Is(err, os.ErrNotExist) {
		return keys, hint(err, "remove release.key and release.pub to have new ones made")
	}
	key, err := release.MakeKeys(filepath.Join(c.data, "release.key"), public, "")
	if err != nil {
		return nil, hint(fmt.Errorf("making the key of releases: %w", err), "remove release.key to have a new one made")
	}
	return []minisign.PublicKey{key}, nil
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
		d.started.AddFunc(relay.Stop)
		d.relays = append(d.relays, relay)
		target.Host = relay.Addr()
		address = target.String()
	}
	port := 0
	if c.port != 0 {
		port = c.port + i
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
		Listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Origin: address, Credentials: credentials,
		Version: c.Build, Progress: c.compiling.Module, CheckDial: newCheckDial(),
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
		return hint(err, "is it running already? --port 0 takes free ports")
	}
	return err
}

// stop ends the nodes first, so that the origin can still commit their leads. It
// may be called twice.
func (d *dev) stop(ctx context.Context) error { return stopAll(ctx, &d.started) }

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

// shellEnv returns the addresses and the keys as variables of a shell.
func shellEnv(info devReady) []byte {
	return fmt.Appendf(nil, "NODE=%s\nADMIN=%s\nACCOUNT=%s\nLIVE=%s\nTEST=%s\nTOKEN=%s\n",
		info.Nodes[0].BaseURL, info.Origin.AdminURL, info.AccountID, info.Keys.Live, info.Keys.Test, info.Origin.AdminToken)
}

// devAccount is an account to develop against, with the plaintexts of its keys. A
// file that only its owner can read keeps it, which is fit for development and for
// nothing else.
type devAccount struct {
	AccountID string  `json:"account_id"`
	Keys      devKeys `json:"keys"`
	// IDs of the keys, to see whether nodes still accept them.
	LiveID string `json:"live_id"`
	TestID string `json:"test_id"`
}

type devKeys struct {
	Live string `json:"live"`
	Test string `json:"test"`
}

// openDevAccount returns the account in the file at path. It makes the account and
// the keys that the origin does not have, or has ended.
func openDevAccount(ctx context.Context, admin *adminapi.Client, path string) (a devAccount, err error) {
	if err := readJSON(path, &a); err != nil && !errors.Is(err, os.ErrNotExist) {
		return a, hint(err, "remove the file to have new keys made")
	}
	before := a
	if err := a.complete(ctx, admin); err != nil {
		return a, fmt.Errorf("making the first account: %w", err)
	}
	if a != before {
		if err := writeJSON(path, a); err != nil {
			return a, fmt.Errorf("keeping the keys: %w", err)
		}
	}
	return a, nil
}

func (a *devAccount) complete(ctx context.Context, admin *adminapi.Client) error {
	known, err := a.known(ctx, admin)
	if err != nil {
		return err
	}
	if !known {
		name, mode, email, agent := "Reyes Realty", string(store.ModeLive), "dana@example.com", "Dana Reyes"
		made, err := admin.CreateAccount(ctx, adminapi.NewAccount{
			Name: &name, ActivationMode: &mode, Agent: &adminapi.NewAgent{Email: &email, FullName: &agent},
		})
		if err != nil {
			return err
		}
		*a = devAccount{AccountID: made.ID}
	}
	accepted, err := acceptedKeys(ctx, admin, a.AccountID)
	if err != nil {
		return err
	}
	for _, key := range []struct {
		environment   store.Environment
		id, plaintext *string
	}{{store.Live, &a.LiveID, &a.Keys.Live}, {store.Test, &a.TestID, &a.Keys.Test}} {
		if accepted[*key.id] {
			continue
		}
		environment, label := string(key.environment), "edge dev"
		made, err := admin.CreateKey(ctx, a.AccountID, adminapi.NewKey{Environment: &environment, Scopes: adminapi.Scopes(), Label: &label})
		if err != nil {
			return err
		}
		*key.id, *key.plaintext = made.Key.ID, made.Plaintext
	}
	return nil
}

// known reports whether the origin has the account.
func (a *devAccount) known(ctx context.Context, admin *adminapi.Client) (bool, error) {
	if a.AccountID == "" {
		return false, nil
	}
	err := admin.Call(ctx, http.MethodGet, "/accounts/"+url.PathEscape(a.AccountID), nil, nil)
	if refused, ok := errors.AsType[*adminapi.Error](err); ok && refused.Status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// acceptedKeys returns the ids of the account's keys that nodes accept.
func acceptedKeys(ctx context.Context, admin *adminapi.Client, account string) (map[string]bool, error) {
	accepted := map[string]bool{}
	for k, err := range adminapi.All[adminapi.Key](ctx, admin, "/accounts/"+url.PathEscape(account)+"/keys", nil) {
		if err != nil {
			return nil, err
		}
		accepted[k.ID] = k.State == "active" || k.State == "in_grace"
	}
	return accepted, nil
}

// enrol returns the file with a node's credentials in dir, and enrols the node
// when there is none yet.
func enrol(ctx context.Context, admin *adminapi.Client, dir, region string) (file string, err error) {
	file = filepath.Join(dir, "node.creds")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	made, err := admin.EnrolNode(ctx, "dev-"+region, region)
	if err != nil {
		return "", fmt.Errorf("enrolling the node: %w", err)
	}
	if err := durable.WriteFile(file, []byte(made.Credentials), 0o600); err != nil {
		return "", fmt.Errorf("keeping the node's credentials: %w", err)
	}
	return file, nil
}
