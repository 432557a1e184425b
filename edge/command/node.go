package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/closers"
	"partneredge/edge/gotuning"
	"partneredge/edge/hint"
	"partneredge/edge/node"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/output"
	"partneredge/edge/service"
	"partneredge/edge/tracing"
	"partneredge/edge/webhook"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/host/compilecache"
	"partneredge/store/durable"
)

// nodeReady is the content of DIR/node.json, which is there while the node is up.
type nodeReady struct {
	Region     string `json:"region"`
	BaseURL    string `json:"base_url"`
	MetricsURL string `json:"metrics_url"`
}

// nodeFlags are the flags of edge node.
type nodeFlags struct {
	node.Config
	releases releaseFlags
	traces   traceFlags
	logs     logFlags
}

// maxDrain bounds --drain, so that a unit can say how long a stop may take.
const maxDrain = time.Minute

func newNode() *cobra.Command {
	var f nodeFlags
	cmd := newCommand("node --data DIR --region R --listen ADDR --metrics ADDR --origin NATS_URL --credentials FILE",
		"run a regional node: the partner API", func(cmd *cobra.Command, _ []string) error {
			if err := f.complete(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout())
		})
	flags := cmd.Flags()
	flags.StringVar(&f.Data, "data", "", "`DIR` of the node's state")
	flags.StringVar(&f.Region, "region", "", "`NAME` of the region it stands in")
	flags.StringVar(&f.Listen, "listen", "127.0.0.1:8080", "`ADDR` (host:port) of the partner API")
	flags.StringVar(&f.Metrics, "metrics", "127.0.0.1:9090", "`ADDR` (host:port) of /metrics, /healthz and /readyz; not for the world")
	flags.StringVar(&f.Origin, "origin", "", "NATS `URL` of the origin, or several by comma")
	flags.StringVar(&f.OriginCA, "origin-ca", "", "PEM `FILE` of who signs the origin's certificate (default: the system's)")
	flags.StringVar(&f.Credentials, "credentials", "", "`FILE` with the credentials that the origin gave at enrolment")
	flags.StringVar(&f.Modules, "modules", "", "`DIR` of the modules and their manifests (default: modules in ../lib/edge, or beside the program)")
	f.releases.register(flags, "every release is refused")
	flags.StringVar(&f.Cache, "cache", "", "`DIR` of compiled modules, for nodes of one owner to share (default: DIR/cache of --data)")
	flags.DurationVar(&f.ModuleCPU, "module-cpu", host.DefaultCPU, "`DURATION` for which a module may compute in one call; longer on a slow machine, where cpu_deadline ends honest ones")
	flags.StringVar(&f.TLSCert, "tls-cert", "", "PEM `FILE`: the partner API's certificate, read again when it changes")
	flags.StringVar(&f.TLSKey, "tls-key", "", "PEM `FILE`: its key")
	flags.Var((*hostNames)(&f.ACME.Hosts), "acme-host", "host `NAME` to get a certificate for by ACME, at whose port 443 the authority must reach --listen; may be given again")
	flags.StringVar(&f.ACME.Dir, "acme-dir", "", "`DIR` of the ACME account's key and the certificates (default: DIR/acme of --data)")
	flags.StringVar(&f.ACME.URL, "acme-url", "", "`URL` of the ACME authority's directory (default: Let's Encrypt's)")
	flags.StringVar(&f.ACME.CA, "acme-ca", "", "PEM `FILE` of who signs the ACME authority's own certificate (default: the system's)")
	flags.StringVar(&f.ACME.Email, "acme-email", "", "`ADDRESS` that the ACME authority may write to")
	flags.Var((*prefixes)(&f.TrustedProxies), "trusted-proxies", "`CIDR` of proxies whose X-Forwarded-For counts; may be given again (default: none)")
	flags.DurationVar(&f.MaxStale, "max-stale", time.Hour, "`DURATION` for which records are trusted when the origin is not heard")
	flags.DurationVar(&f.KeepLeads, "keep-leads", 48*time.Hour, "`DURATION` for which leads are kept after they were handed over, to offer them again to an origin that was restored; 0: not kept")
	flags.DurationVar(&f.Drain, "drain", 0, "`DURATION`, at most 1m, for which the node serves on after a signal to stop, and /healthz of --listen answers 503; a little longer than a balancer takes to notice")
	f.traces.register(flags)
	f.logs.register(flags, slog.LevelInfo)
	cmd.AddCommand(newNodeOperations()...)
	return cmd
}

// complete validates the flags and completes the Config.
func (f *nodeFlags) complete(cmd *cobra.Command) (err error) {
	if f.Log, err = f.logs.logger(cmd); err != nil {
		return err
	}
	if err := cmp.Or(required(cmd, "data", "region", "origin", "credentials"), filled(cmd, "release-keys", "min-release")); err != nil {
		return err
	}
	switch {
	case !wire.IsRegion(f.Region):
		return misused(cmd, "--region %q is no name of lower-case letters, digits and dashes", f.Region)
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return misused(cmd, "--tls-cert and --tls-key go together")
	case len(f.ACME.Hosts) > 0 && f.TLSCert != "":
		return misused(cmd, "--acme-host and --tls-cert exclude each other")
	case f.ModuleCPU <= 0:
		return misused(cmd, "--module-cpu must be more than 0")
	case f.MaxStale <= 0:
		return misused(cmd, "--max-stale must be more than 0")
	case f.KeepLeads < 0:
		return misused(cmd, "--keep-leads must not be less than 0")
	case f.Drain < 0 || f.Drain > maxDrain:
		return misused(cmd, "--drain must be from 0 to %s", maxDrain)
	}
	if err := f.traces.validate(cmd); err != nil {
		return err
	}
	f.Version, f.CheckDial = cmd.Root().Version, newCheckDial()
	f.MinRelease = f.releases.least
	if f.ReleaseKeys, err = f.releases.keys(); err != nil {
		return err
	}
	f.Modules, err = modulesDir(f.Modules)
	return err
}

func (f *nodeFlags) run(ctx context.Context, stdout io.Writer) error {
	return service.Run(ctx, service.Config{Dir: f.Data, File: "node.json", Stdout: stdout, Log: f.Log, Drain: f.Drain}, func(started *closers.Stack) (ready any, greeting string, err error) {
		about := tracing.Config{Service: "edge-node", Release: f.Version, Region: f.Region, Log: f.Log}
		if f.Tracer, err = f.traces.start(ctx, about, started); err != nil {
			return nil, "", err
		}
		started.AddFunc(gotuning.Start(ctx))
		compiling := output.NewCompiling(stdout)
		f.Progress = compiling.Module
		n, err := node.Start(ctx, f.Config)
		compiling.Done(err == nil)
		if err != nil {
			return nil, "", nodeHint(err)
		}
		started.Add(n.Stop)
		return nodeReady{f.Region, n.URL(), n.MetricsURL() + "/metrics"},
			fmt.Sprintf("edge node: ready, %s, partner API %s, metrics %s\n", n.ID(), n.URL(), n.MetricsURL()), nil
	})
}

// nodeHint adds advice to the error of a node that cannot start.
func nodeHint(err error) error {
	for _, h := range []struct {
		kind   error
		advice string
	}{
		{link.ErrCredentials, "enrol the node with edge node enrol --out FILE, and name that file with --credentials"},
		{link.ErrRegion, "start the node with --region as it was enrolled, or enrol it for this region: edge node enrol"},
		{link.ErrNotEnrolled, "is --origin the one that the node was enrolled at? Enrol it there again if it was revoked or the origin's data is new, and give the new --credentials"},
		{link.ErrCertificate, "name with --origin-ca who signed the origin's certificate, and with --origin a host that the certificate is for"},
		{link.ErrVersion, "node and origin may be one version apart: bring the older one up to date"},
		{node.ErrNoOrigin, "does the origin run, and is --origin the address of its NATS?"},
	} {
		if errors.Is(err, h.kind) {
			return hint.Add(err, "%s", h.advice)
		}
	}
	if exposed, ok := errors.AsType[*compilecache.ExposedError](err); ok {
		return hint.Add(err, "if nobody else has written to it, run: %s; otherwise remove it or name another folder with --cache", exposed.Fix)
	}
	return err
}

// newNodeOperations makes the commands below edge node, by which operators enrol,
// list and revoke nodes.
func newNodeOperations() []*cobra.Command {
	return []*cobra.Command{
		newAdminCommand("enrol", "make a node, and print its credentials or write them to a file, once", defineNodeEnrol),
		newListCommand("list", "list all nodes, revoked ones as well, newest first", "/nodes",
			"id", "region", "name", "connected", "build", "created_at", "last_seen_at", "revoked_at"),
		newRecordCommand("revoke NODE", "void a node's credentials and end its connection", "POST /nodes/%s/revoke", nil,
			"id", "region", "name", "revoked_at"),
	}
}

func defineNodeEnrol(flags *pflag.FlagSet) handler {
	name := flags.String("name", "", "`NAME` of the node, for operators")
	region := flags.String("region", "", "`NAME` of the region that it stands in, as its own --region says")
	out := flags.String("out", "", "`FILE` that the credentials are written to, mode 0600, for --credentials of edge node (default: standard output)")
	return func(ctx context.Context, c *invocation) error {
		if err := cmp.Or(required(c.cmd, "name", "region"), filled(c.cmd, "out")); err != nil {
			return err
		}
		file := ""
		if *out != "" {
			var err error
			if file, err = outFile(*out, "leave --out away for standard output"); err != nil {
				return fmt.Errorf("enrolling: %w", err)
			}
		}
		raw, made, err := call[adminapi.EnrolledNode](ctx, c.admin, http.MethodPost, "/nodes", adminapi.NewNode{Name: name, Region: region})
		if err != nil {
			return err
		}
		if *out == "" {
			return c.showOnce(raw, made.Credentials, "node", made.Node.ID)
		}
		if err := durable.WriteFile(file, []byte(made.Credentials), 0o600); err != nil {
			return lostOnce(err, "node", output.Plain(made.Node.ID))
		}
		return c.Line(map[string]any{"id": made.Node.ID, "credentials": *out}, fmt.Sprintf("%s\tcredentials in %s", output.Plain(made.Node.ID), output.Plain(*out)))
	}
}

// newCheckDial returns a check that lets modules connect to the addresses that
// webhooks may be delivered to, on any port that their manifests name.
func newCheckDial() func(netip.AddrPort) error {
	guard := webhook.NewGuard(webhook.GuardConfig{})
	return func(addr netip.AddrPort) error { return guard.CheckAddr(addr.Addr()) }
}

// modulesDir returns dir, or the folder modules that is installed with the program.
func modulesDir(dir string) (string, error) {
	if dir == "" {
		var err error
		if dir, err = installed("modules"); err != nil {
			return "", hint.Add(fmt.Errorf("finding the modules: %w", err), "name their folder with --modules")
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", hint.Add(fmt.Errorf("finding the modules: %w", err), "name their folder with --modules")
	}
	if !slices.ContainsFunc(files, func(f fs.DirEntry) bool { return filepath.Ext(f.Name()) == ".wasm" }) {
		return "", hint.Add(fmt.Errorf("finding the modules: none in %s", dir), "run 'make modules', or name their folder with --modules")
	}
	return dir, nil
}

// installed returns the path of what comes with the program: beside it, where it was
// built, or else in ../lib/edge.
func installed(name string) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	bin := filepath.Dir(program)
	path := filepath.Join(bin, "..", "lib", "edge", name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return filepath.Join(bin, name), nil
}
