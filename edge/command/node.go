package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"partneredge/edge/gotuning"
	"partneredge/edge/node"
	"partneredge/edge/node/replication/link"
	"partneredge/edge/webhook"
)

// nodeReady is DIR/node.json, there while the node is up.
type nodeReady struct {
	Region     string `json:"region"`
	BaseURL    string `json:"base_url"`
	MetricsURL string `json:"metrics_url"`
}

func runNode(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := newFlags("node", "edge node --data DIR --region R --listen ADDR --metrics ADDR --origin NATS_URL --credentials FILE [flags]", stderr)
	c := node.Config{Version: version, CheckDial: checkDial()}
	var proxies prefixes
	var releases releaseTrust
	f.StringVar(&c.Data, "data", "", "`DIR` of the node's state")
	f.StringVar(&c.Region, "region", "", "`NAME` of the region it stands in")
	f.StringVar(&c.Listen, "listen", "127.0.0.1:8080", "`ADDR` (host:port) of the partner API")
	f.StringVar(&c.Metrics, "metrics", "127.0.0.1:9090", "`ADDR` (host:port) of /metrics, /healthz and /readyz; not for the world")
	f.StringVar(&c.Origin, "origin", "", "NATS `URL` of the origin, or several by comma")
	f.StringVar(&c.OriginCA, "origin-ca", "", "PEM `FILE` of who signs the origin's certificate (default: the system's)")
	f.StringVar(&c.Credentials, "credentials", "", "`FILE` with the credentials that the origin gave at enrolment")
	f.StringVar(&c.Modules, "modules", "", "`DIR` of the modules and their manifests (default: modules beside the program)")
	releases.flags(f)
	f.StringVar(&c.Cache, "cache", "", "`DIR` of compiled modules, for nodes of one owner to share (default: DIR/cache of --data)")
	f.StringVar(&c.TLSCert, "tls-cert", "", "PEM `FILE`: the partner API's certificate, read again when it changes")
	f.StringVar(&c.TLSKey, "tls-key", "", "PEM `FILE`: its key")
	var hosts hostNames
	f.Var(&hosts, "acme-host", "`NAME` that a certificate is got for from an ACME authority, which must reach --listen as its port 443; may be given again")
	f.StringVar(&c.ACME.Dir, "acme-dir", "", "`DIR` of the ACME account's key and the certificates (default: DIR/acme of --data)")
	f.StringVar(&c.ACME.URL, "acme-url", "", "`URL` of the ACME authority's directory (default: Let's Encrypt's)")
	f.StringVar(&c.ACME.CA, "acme-ca", "", "PEM `FILE` of who signs the ACME authority's own certificate (default: the system's)")
	f.StringVar(&c.ACME.Email, "acme-email", "", "`ADDRESS` that the ACME authority may write to")
	f.Var(&proxies, "trusted-proxies", "`CIDR` of proxies whose X-Forwarded-For counts; may be given again (default: none)")
	f.DurationVar(&c.MaxStale, "max-stale", time.Hour, "`DURATION` for which records are trusted when the origin is not heard")
	var traces traceConfig
	traces.traceFlags(f)
	f.logging(slog.LevelInfo)
	if err := f.parse(args); err != nil {
		return err
	}
	if err := f.required("data", "region", "origin", "credentials"); err != nil {
		return err
	}
	if !isName(c.Region) {
		return usagef(f.hint(), "node: --region %q is no name of lower-case letters, digits and dashes", c.Region)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return usagef(f.hint(), "node: --tls-cert and --tls-key go together")
	}
	if err := traces.check(f); err != nil {
		return err
	}
	if len(hosts) > 0 && c.TLSCert != "" {
		return usagef(f.hint(), "node: --acme-host and --tls-cert exclude each other")
	}
	c.ACME.Hosts = hosts
	if c.MaxStale <= 0 {
		return usagef(f.hint(), "node: --max-stale must be more than 0")
	}
	if c.Modules, err = modulesDir(c.Modules); err != nil {
		return err
	}
	if c.ReleaseKeys, err = releases.keys(); err != nil {
		return err
	}
	c.MinRelease = releases.least
	c.TrustedProxies = proxies
	c.Log = f.logger()

	release, err := lockDir(c.Data)
	if err != nil {
		return err
	}
	defer release()
	ready := filepath.Join(c.Data, "node.json")
	_ = os.Remove(ready) // an earlier process may have been killed

	var stopTraces func() error
	if c.Tracer, stopTraces, err = traces.start(ctx, "edge-node", c.Region, c.Log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopTraces()) }() // after the node

	progress := newProgress(stdout)
	c.Progress = progress.module
	defer gotuning.Start(ctx)()
	n, err := node.Start(ctx, c)
	progress.done(err == nil)
	if err != nil {
		return linkHint(err)
	}
	defer func() {
		// ctx has ended: what is under way gets a time of its own.
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err = errors.Join(err, n.Stop(stopping))
	}()
	if err := writeJSON(ready, nodeReady{c.Region, n.URL(), n.MetricsURL() + "/metrics"}); err != nil {
		return fmt.Errorf("writing %s: %w", ready, err)
	}
	defer os.Remove(ready)
	fmt.Fprintf(stdout, "edge node: ready, %s, partner API %s, metrics %s\n", n.ID(), n.URL(), n.MetricsURL())
	<-ctx.Done()
	return nil
}

// linkHint adds what to do about a node that cannot work with its origin.
func linkHint(err error) error {
	for _, h := range []struct {
		kind error
		hint string
	}{
		{link.ErrCredentials, "enrol the node with POST /admin/v1/nodes, and write the answer's credentials, as they are, to the file of --credentials"},
		{link.ErrNotEnrolled, "is --origin the one that the node was enrolled at? Enrol it there again if it was revoked or the origin's data is new, and give the new --credentials"},
		{link.ErrCertificate, "name with --origin-ca who signed the origin's certificate, and with --origin a host that the certificate is for"},
		{link.ErrVersion, "node and origin may be one version apart: bring the older one up to date"},
		{node.ErrNoOrigin, "does the origin run, and is --origin the address of its NATS?"},
	} {
		if errors.Is(err, h.kind) {
			return hint(err, "%s", h.hint)
		}
	}
	return err
}

// checkDial lets modules connect where webhooks may go, on whatever port their
// manifests name.
func checkDial() func(netip.AddrPort) error {
	guard := webhook.NewGuard(webhook.GuardConfig{})
	return func(addr netip.AddrPort) error { return guard.CheckAddr(addr.Addr()) }
}

// modulesDir is dir, or the folder modules beside the program.
func modulesDir(dir string) (string, error) {
	if dir == "" {
		program, err := os.Executable()
		if err != nil {
			return "", hint(fmt.Errorf("finding the modules: %w", err), "name their folder with --modules")
		}
		dir = filepath.Join(filepath.Dir(program), "modules")
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*.wasm")); len(found) == 0 {
		return "", hint(fmt.Errorf("finding the modules: none in %s", dir), "run 'make modules', or name their folder with --modules")
	}
	return dir, nil
}
