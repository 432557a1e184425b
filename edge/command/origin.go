package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/console"
	"partneredge/edge/origin"
	"partneredge/edge/origin/admin"
	"partneredge/edge/tracing"
	"partneredge/edge/webhook"
	"partneredge/edge/webhook/secrets"
	"partneredge/store/central"
)

// stopTime bounds the work that is under way when the process is told to stop.
const stopTime = 15 * time.Second

// originReady is the content of DIR/origin.json, which is there while the origin
// is up.
type originReady struct {
	AdminURL string `json:"admin_url"`
	NATSURL  string `json:"nats_url"`
}

// originConfig configures an origin process.
type originConfig struct {
	version                          string // of the program
	dir, database                    string // database "": SQLite in dir
	admin, tokenFile                 string
	adminCert, adminKey              string
	adminProxies                     prefixes
	secretsFile                      string // "": secrets.keys in dir
	natsListen, natsCert, natsKey    string
	natsURL, natsCredentials, natsCA string
	natsKeys                         string // "": nats in dir
	webhookAllow                     prefixes
	webhookCA                        string
	retention                        time.Duration // of the delivery log; negative: for good
	traces                           traceFlags
	log                              *slog.Logger
}

func newOrigin() *cobra.Command {
	var c originConfig
	var logs logFlags
	cmd := newCommand("origin --data DIR --admin ADDR --nats-listen ADDR",
		"run the origin: accounts, keys, leads, deliveries, admin API", func(cmd *cobra.Command, _ []string) (err error) {
			if err := required(cmd, "data"); err != nil {
				return err
			}
			if err := c.traces.validate(cmd); err != nil {
				return err
			}
			if (c.adminCert == "") != (c.adminKey == "") {
				return misused(cmd, "--admin-tls-cert and --admin-tls-key go together")
			}
			if c.log, err = logs.logger(cmd); err != nil {
				return err
			}
			c.version = cmd.Root().Version
			return runOrigin(cmd.Context(), c, cmd.OutOrStdout())
		})
	flags := cmd.Flags()
	flags.StringVar(&c.dir, "data", "", "`DIR` of the admin token, the NATS keys and the SQLite file")
	flags.StringVar(&c.admin, "admin", "127.0.0.1:8090", "`ADDR` (host:port) of the admin API")
	flags.StringVar(&c.adminCert, "admin-tls-cert", "", "PEM `FILE`: the admin API's certificate, read again when it changes")
	flags.StringVar(&c.adminKey, "admin-tls-key", "", "PEM `FILE`: its key")
	flags.Var(&c.adminProxies, "admin-trusted-proxies", "`CIDR` of proxies that may say by X-Forwarded-Proto that they were asked by HTTPS; may be given again")
	flags.StringVar(&c.tokenFile, "admin-token-file", "", "`FILE` with the admin token, made 0600 when it is not there (default DIR/admin.token)")
	flags.StringVar(&c.natsListen, "nats-listen", "127.0.0.1:4222", "`ADDR` (host:port) of the embedded NATS server")
	flags.StringVar(&c.natsCert, "nats-tls-cert", "", "PEM `FILE`: the embedded NATS server's certificate, read again when it changes")
	flags.StringVar(&c.natsKey, "nats-tls-key", "", "PEM `FILE`: its key")
	flags.StringVar(&c.natsURL, "nats", "", "`URL` of a NATS cluster, or several by comma, in place of the embedded server; its servers include DIR/cluster.conf of --nats-keys")
	flags.StringVar(&c.natsKeys, "nats-keys", "", "`DIR` of the keys that sign nodes' credentials, the same for all origins of a cluster (default DIR/nats, made on first start)")
	flags.StringVar(&c.natsCredentials, "nats-credentials", "", "`FILE` of credentials for that cluster (default: made)")
	flags.StringVar(&c.natsCA, "nats-ca", "", "PEM `FILE` of who signs that cluster's certificates (default: the system's)")
	flags.StringVar(&c.database, "database", "", "postgres://… `URL` (default: SQLite, DIR/origin.db)")
	flags.StringVar(&c.secretsFile, "secrets-file", "", "`FILE` of the keys that signing secrets are sealed with, the same for all origins of a database (default DIR/secrets.keys, made 0600)")
	c.webhookFlags(flags)
	c.traces.register(flags)
	logs.register(flags, slog.LevelInfo)
	return cmd
}

// webhookFlags registers the flags that edge dev has as well.
func (c *originConfig) webhookFlags(flags *pflag.FlagSet) {
	flags.Var(&c.webhookAllow, "webhook-allow", "`CIDR` that webhooks may be delivered to though it is not public; may be given again")
	flags.Func("delivery-retention", "`DURATION` that deliveries stay in the log once they have ended (default 720h); 0: for good", func(text string) error {
		d, err := time.ParseDuration(text)
		switch {
		case err != nil || d < 0:
			return fmt.Errorf("%q is no duration such as 720h", text)
		case d == 0:
			d = -1
		}
		c.retention = d
		return nil
	})
	flags.StringVar(&c.webhookCA, "webhook-ca", "", "PEM `FILE` of who may sign endpoints' certificates besides the system's")
}

func runOrigin(ctx context.Context, c originConfig, stdout io.Writer) (err error) {
	unlock, err := lockData(c.dir, "origin.json")
	if err != nil {
		return err
	}
	defer unlock()
	o, err := startOrigin(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.stop(ctx)) }()
	ready := filepath.Join(c.dir, "origin.json")
	if err := writeJSON(ready, originReady{o.AdminURL(), o.NATSURL()}); err != nil {
		return fmt.Errorf("writing %s: %w", ready, err)
	}
	defer os.Remove(ready)
	fmt.Fprintf(stdout, "edge origin: ready, admin API %s, NATS %s\n", o.AdminURL(), o.NATSURL())
	<-ctx.Done()
	return nil
}

// originProcess is an origin with its database and its webhook sender.
type originProcess struct {
	*origin.Origin
	db         *central.DB
	sender     *webhook.Sender
	stopTraces func() error
}

// startOrigin starts the database, the sender and the origin, in this order.
func startOrigin(ctx context.Context, c originConfig) (_ *originProcess, err error) {
	o := new(originProcess)
	defer func() {
		if err != nil {
			_ = o.stop(ctx) // why it was not started matters more
		}
	}()
	if c.database == "" {
		c.database = filepath.Join(c.dir, databaseFile)
	}
	if c.secretsFile == "" {
		c.secretsFile = filepath.Join(c.dir, secretsFile)
	}
	sealer, err := secrets.Load(c.secretsFile)
	if err != nil {
		return nil, err
	}
	if o.db, err = central.Open(ctx, central.Config{URL: c.database, Secrets: sealer, Log: c.log}); err != nil {
		return nil, err
	}
	if _, err := o.db.ResealSecrets(ctx); err != nil { // after the file got a new first key
		return nil, err
	}
	guard := webhook.NewGuard(webhook.GuardConfig{Allow: c.webhookAllow})
	registry := prometheus.NewRegistry()
	tracer, stopTraces, err := c.traces.start(ctx, "edge-origin", c.version, "", c.log)
	if err != nil {
		return nil, err
	}
	o.stopTraces = stopTraces
	tries := newTries(o.db, tracer, registry)
	if o.sender, err = webhook.Start(ctx, webhook.Config{Store: tries, Guard: guard, CAFile: c.webhookCA, Log: c.log}); err != nil {
		return nil, err
	}
	o.Origin, err = origin.Start(ctx, origin.Config{
		Dir: c.dir, DB: o.db, Guard: guard, Log: c.log, Release: c.version, Metrics: registry, Tracer: tracer,
		AdminAddr: c.admin, AdminCert: c.adminCert, AdminKey: c.adminKey, AdminTokenFile: c.tokenFile,
		NATSListen: c.natsListen, NATSCert: c.natsCert, NATSKey: c.natsKey,
		NATSURL: c.natsURL, NATSKeys: c.natsKeys, NATSCredentials: c.natsCredentials, NATSCA: c.natsCA,
		OnWake: o.sender.Wake, Tail: o.sender.Tail, DeliveryRetention: c.retention,
		Console: func(api http.Handler) (admin.Console, error) {
			return console.New(console.Config{API: api, Proxies: c.adminProxies, Log: c.log})
		},
	})
	if err != nil {
		return nil, err
	}
	// Deliveries that the sender did not take as they were written.
	o.db.OnCommit(func(c central.Commit) {
		if c.Deliveries > 0 {
			o.sender.Wake()
		}
	})
	return o, nil
}

// stop ends what has been started, the last first. It may be called twice. Work
// under way has stopTime to finish, even when ctx is done.
func (o *originProcess) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	var errs []error
	if o.Origin != nil {
		errs = append(errs, o.Origin.Stop(ctx))
	}
	if o.sender != nil {
		errs = append(errs, o.sender.Stop(ctx))
	}
	if o.stopTraces != nil {
		errs = append(errs, o.stopTraces())
		o.stopTraces = nil
	}
	if o.db != nil {
		errs = append(errs, o.db.Close())
		o.db = nil
	}
	return errors.Join(errs...)
}

// traceFlags are --trace-endpoint and --trace-ratio.
type traceFlags struct {
	endpoint string
	ratio    float64
}

func (t *traceFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&t.endpoint, "trace-endpoint", "", "`URL` of an OpenTelemetry collector that takes traces by OTLP over HTTP, such as http://127.0.0.1:4318 (default: none are made)")
	flags.Float64Var(&t.ratio, "trace-ratio", 0.1, "`PART` of requests that are traced, from 0 to 1")
}

func (t *traceFlags) validate(cmd *cobra.Command) error {
	if !(t.ratio >= 0 && t.ratio <= 1) { // nor NaN
		return misused(cmd, "--trace-ratio must be from 0 to 1")
	}
	return nil
}

// start returns a nil tracer where no requests are to be traced. stop sends the
// traces that are left, for at most stopTime.
func (t *traceFlags) start(ctx context.Context, service, version, region string, log *slog.Logger) (tracer *tracing.Tracer, stop func() error, err error) {
	tracer, err = tracing.Start(ctx, tracing.Config{
		Endpoint: t.endpoint, Ratio: t.ratio, Service: service, Release: version, Region: region, Log: log,
	})
	return tracer, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if err := tracer.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) { // a collector that is away is no fault of ours
			return err
		}
		return nil
	}, err
}
