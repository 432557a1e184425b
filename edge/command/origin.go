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
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/edge/closers"
	"partneredge/edge/console"
	"partneredge/edge/hint"
	"partneredge/edge/origin"
	"partneredge/edge/origin/backup"
	"partneredge/edge/origin/listener"
	"partneredge/edge/service"
	"partneredge/edge/tracing"
	"partneredge/edge/webhook"
	"partneredge/edge/webhook/secrets"
	"partneredge/store/central"
	"partneredge/store/central/db"
	"partneredge/store/durable"
)

// Names in an origin's directory.
const (
	databaseFile   = "origin.db"
	adminTokenFile = "admin.token"
	secretsFile    = "secrets.keys"
	natsFolder     = "nats" // of the keys that sign nodes' credentials
)

// originReady is the content of DIR/origin.json, which is there while the origin
// is up.
type originReady struct {
	AdminURL string `json:"admin_url"`
	NATSURL  string `json:"nats_url"`
	// Absolute paths of files that a client on this machine needs.
	AdminToken       string `json:"admin_token_file,omitempty"`       // "": DIR/admin.token
	AdminCertificate string `json:"admin_certificate_file,omitempty"` // "": plain HTTP
}

// originConfig configures an origin process.
type originConfig struct {
	origin.Config
	database     string // "": SQLite in Dir
	secretsFile  string // "": secrets.keys in Dir
	webhookAllow prefixes
	webhookCA    string
	schedule     []time.Duration // of tries, for tests; nil: the sender's own
	traces       traceFlags
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
			if (c.AdminCert == "") != (c.AdminKey == "") {
				return misused(cmd, "--admin-tls-cert and --admin-tls-key go together")
			}
			if c.Log, err = logs.logger(cmd); err != nil {
				return err
			}
			c.Build = cmd.Root().Version
			return runOrigin(cmd.Context(), c, cmd.OutOrStdout())
		})
	flags := cmd.Flags()
	flags.StringVar(&c.Dir, "data", "", "`DIR` of the admin token, the NATS keys and the SQLite file")
	flags.StringVar(&c.AdminAddr, "admin", "127.0.0.1:8090", "`ADDR` (host:port) of the admin API")
	flags.StringVar(&c.AdminCert, "admin-tls-cert", "", "PEM `FILE`: the admin API's certificate, read again when it changes")
	flags.StringVar(&c.AdminKey, "admin-tls-key", "", "PEM `FILE`: its key")
	flags.Var((*prefixes)(&c.AdminProxies), "admin-trusted-proxies", "`CIDR` of proxies before the admin listener, whose X-Forwarded-For and X-Forwarded-Proto count; may be given again (default: none)")
	flags.StringVar(&c.AdminTokenFile, "admin-token-file", "", "`FILE` with the admin token, made 0600 when it is not there (default DIR/admin.token)")
	flags.StringVar(&c.NATSListen, "nats-listen", "127.0.0.1:4222", "`ADDR` (host:port) of the embedded NATS server")
	flags.StringVar(&c.NATSLeafListen, "nats-leaf-listen", "", "`ADDR` (host:port) at which the embedded NATS server takes the NATS servers of regions, its leaf nodes (default: none)")
	flags.StringVar(&c.NATSCert, "nats-tls-cert", "", "PEM `FILE`: the embedded NATS server's certificate, read again when it changes")
	flags.StringVar(&c.NATSKey, "nats-tls-key", "", "PEM `FILE`: its key")
	flags.StringVar(&c.NATSURL, "nats", "", "`URL` of a NATS cluster, or several by comma, in place of the embedded server; its servers include DIR/cluster.conf of --nats-keys")
	flags.StringVar(&c.NATSKeys, "nats-keys", "", "`DIR` of the keys that sign nodes' credentials, the same for all origins of a cluster (default DIR/nats, made on first start)")
	flags.StringVar(&c.NATSCredentials, "nats-credentials", "", "`FILE` of credentials for that cluster (default: made)")
	flags.StringVar(&c.NATSCA, "nats-ca", "", "PEM `FILE` of who signs that cluster's certificates (default: the system's)")
	flags.BoolVar(&c.AllowOldNodes, "allow-old-nodes", false, "serve every node without the hashes of its partners' keys, for nodes that go back to a program that sends none (default: only nodes that never sent any)")
	flags.StringVar(&c.database, "database", "", "postgres://… `URL` (default: SQLite, DIR/origin.db)")
	flags.StringVar(&c.secretsFile, "secrets-file", "", "`FILE` of the keys that signing secrets are sealed with, the same for all origins of a database (default DIR/secrets.keys, made 0600)")
	c.webhookFlags(flags)
	c.traces.register(flags)
	logs.register(flags, slog.LevelInfo)
	return cmd
}

// leastLeads is the least time for which leads are kept, from when they came in: a node that was
// cut off for days may hand over once more what the origin has taken, and one that had gone by
// its age would be kept anew.
const leastLeads = 7 * 24 * time.Hour

// webhookFlags registers the flags that edge dev has as well.
func (c *originConfig) webhookFlags(flags *pflag.FlagSet) {
	flags.Var(&c.webhookAllow, "webhook-allow", "`CIDR` that webhooks may be delivered to though it is not public; may be given again")
	keepFor := func(name, what, def string, least time.Duration, into *time.Duration) {
		flags.Func(name, "`DURATION` that "+what+" (default "+def+"); 0: for good", func(text string) error {
			d, err := time.ParseDuration(text)
			switch {
			case err != nil || d < 0:
				return fmt.Errorf("%q is no duration such as 720h", text)
			case d == 0:
				d = -1
			case d < least:
				return fmt.Errorf("%q is less than %v, for which nodes may still hand over what they hold", text, least)
			}
			*into = d
			return nil
		})
	}
	keepFor("delivery-retention", "deliveries stay in the log once they have ended", "720h", 0, &c.Retention.Deliveries)
	keepFor("firing-retention", "firings are kept and served once they came in", "for good", 0, &c.Retention.Firings)
	keepFor("insight-retention", "insights are kept and served once they came in", "for good", 0, &c.Retention.Insights)
	keepFor("contact-retention", "contacts are kept", "for good", 0, &c.Retention.Contacts)
	keepFor("lead-retention", "leads are kept, a week at least", "for good", leastLeads, &c.Retention.Leads)
	keepFor("audit-retention", "entries of the audit log are kept; edge audit export writes them to a file before", "for good", 0, &c.Retention.Audit)
	flags.StringVar(&c.webhookCA, "webhook-ca", "", "PEM `FILE` of who may sign endpoints' certificates besides the system's")
}

func runOrigin(ctx context.Context, c originConfig, stdout io.Writer) error {
	return service.Run(ctx, service.Config{Dir: c.Dir, File: "origin.json", Stdout: stdout, Log: c.Log}, func(started *closers.Stack) (ready any, greeting string, err error) {
		if err := backup.RemoveStale(c.Dir); err != nil {
			return nil, "", fmt.Errorf("removing what a backup left: %w", err)
		}
		o, err := startOrigin(ctx, c)
		if db.NoRoom(err) {
			err = hint.Add(err, "the disk of the database is full: make room, and start the origin again")
		}
		if err != nil {
			return nil, "", err
		}
		started.Add(o.stop)
		found := originReady{AdminURL: o.AdminURL(), NATSURL: o.NATSURL()}
		for file, into := range map[string]*string{c.AdminTokenFile: &found.AdminToken, c.AdminCert: &found.AdminCertificate} {
			if file == "" {
				continue
			}
			if *into, err = filepath.Abs(file); err != nil {
				return nil, "", err
			}
		}
		return found,
			fmt.Sprintf("edge origin: ready, admin API %s, NATS %s\n", o.AdminURL(), o.NATSURL()), nil
	})
}

// originProcess is an origin with its database; its webhook sender is among what
// it has started.
type originProcess struct {
	*origin.Origin
	db      *central.DB
	started closers.Stack
}

// openRecords opens an origin's database, and brings it up to date.
func openRecords(ctx context.Context, c central.Config) (*central.DB, error) {
	records, err := central.Open(ctx, c)
	if errors.Is(err, db.ErrNewer) {
		err = hint.Add(err, "install the version that has changed it, or restore with this one a backup made before that: edge restore brings a database up to its own version")
	}
	if errors.Is(err, durable.ErrLocked) {
		err = hint.Add(err, "stop the origin that uses it: origins that share a database need PostgreSQL")
	}
	return records, err
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
		c.database = filepath.Join(c.Dir, databaseFile)
		if err := c.checkDatabase(); err != nil {
			return nil, err
		}
	}
	c.secretsFile = cmp.Or(c.secretsFile, filepath.Join(c.Dir, secretsFile))
	sealer, err := secrets.Load(c.secretsFile)
	if err != nil {
		return nil, err
	}
	if o.db, err = openRecords(ctx, central.Config{URL: c.database, Secrets: sealer, Log: c.Log, Exclusive: true}); err != nil {
		return nil, err
	}
	o.started.Add(func(context.Context) error { return o.db.Close() })
	if _, err := o.db.ResealSecrets(ctx); err != nil { // after the file got a new first key
		return nil, err
	}
	guard := webhook.NewGuard(webhook.GuardConfig{Allow: c.webhookAllow})
	registry := prometheus.NewRegistry()
	tracer, err := c.traces.start(ctx, tracing.Config{Service: "edge-origin", Release: c.Build, Log: c.Log}, &o.started)
	if err != nil {
		return nil, err
	}
	tries := webhook.Observe(o.db, tracer, registry)
	sender, err := webhook.Start(ctx, webhook.Config{Store: tries, Guard: guard, CAFile: c.webhookCA, Schedule: c.schedule, Log: c.Log})
	if err != nil {
		return nil, err
	}
	o.started.Add(sender.Stop)
	c.DB, c.Guard, c.Metrics, c.Tracer, c.OnWake, c.Tail = o.db, guard, registry, tracer, sender.Wake, sender.Tail
	c.Console = func(api http.Handler) (listener.Console, error) {
		return console.New(console.Config{API: api, Proxies: c.AdminProxies, Log: c.Log})
	}
	o.Origin, err = origin.Start(ctx, c.Config)
	if err != nil {
		return nil, err
	}
	o.started.Add(func(ctx context.Context) error {
		// At once, since requests under way may take all the time that a stop has. The next
		// call of sender.Stop waits for this one and returns its error.
		go func() { _ = sender.Stop(ctx) }()
		return o.Stop(ctx)
	})
	// Deliveries that the sender did not take as they were written.
	o.db.OnCommit(func(c central.Commit) {
		if c.Deliveries > 0 {
			sender.Wake()
		}
	})
	return o, nil
}

// errDatabaseLost is the error of an origin's start beside the keys of one that has run.
var errDatabaseLost = errors.New("the origin's database is missing or empty")

// checkDatabase refuses a directory in which an origin has run and whose database was lost,
// before SQLite touches what is left of it. The keys of NATS are made after the database,
// which cannot be new where they are. Others than Dir's own prove nothing.
func (c *originConfig) checkDatabase() error {
	if c.NATSKeys != "" {
		return nil
	}
	if _, err := os.Stat(filepath.Join(c.Dir, natsFolder)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	info, err := os.Stat(c.database)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0:
		return hint.Add(fmt.Errorf("%w, though an origin has run in %s before", errDatabaseLost, c.Dir),
			"put "+databaseFile+" back, or restore a backup into another directory; to begin anew, start with another --data")
	case err != nil:
		return err
	}
	return nil
}

// stop ends what has been started, the last first. It may be called twice.
func (o *originProcess) stop(ctx context.Context) error { return service.Stop(ctx, &o.started) }
