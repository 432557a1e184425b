package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"partneredge/edge/console"
	"partneredge/edge/origin"
	"partneredge/edge/origin/admin"
	"partneredge/edge/webhook"
	"partneredge/edge/webhook/secrets"
	"partneredge/store/central"
)

// centreConfig is what an origin process needs.
type centreConfig struct {
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
	traces                           traceConfig
	log                              *slog.Logger
}

// webhookFlags are the same for `edge dev`.
func (c *centreConfig) webhookFlags(f *flags) {
	f.Var(&c.webhookAllow, "webhook-allow", "`CIDR` that webhooks may be delivered to though it is not public; may be given again")
	f.Func("delivery-retention", "`DURATION` that deliveries stay in the log once they have ended (default 720h); 0: for good", func(text string) error {
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
	f.StringVar(&c.webhookCA, "webhook-ca", "", "PEM `FILE` of who may sign endpoints' certificates besides the system's")
}

// centre is an origin with its database and its webhook sender.
type centre struct {
	*origin.Origin
	db     *central.DB
	sender *webhook.Sender

	stopTraces func() error
}

// startCentre brings up the database, the sender, the origin, in this order.
func startCentre(ctx context.Context, c centreConfig) (_ *centre, err error) {
	o := new(centre)
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
	if o.db, err = central.Open(ctx, central.Config{
		URL: c.database, Secrets: sealer, Log: c.log,
	}); err != nil {
		return nil, err
	}
	if _, err := o.db.ResealSecrets(ctx); err != nil { // after the file got a new first key
		return nil, err
	}
	guard := webhook.NewGuard(webhook.GuardConfig{Allow: c.webhookAllow})
	registry := prometheus.NewRegistry()
	tracer, stopTraces, err := c.traces.start(ctx, "edge-origin", "", c.log)
	if err != nil {
		return nil, err
	}
	o.stopTraces = stopTraces
	tries := newTries(o.db, tracer, registry)
	if o.sender, err = webhook.Start(ctx, webhook.Config{Store: tries, Guard: guard, CAFile: c.webhookCA, Log: c.log}); err != nil {
		return nil, err
	}
	o.Origin, err = origin.Start(ctx, origin.Config{
		Dir: c.dir, DB: o.db, Guard: guard, Log: c.log, Release: version, Metrics: registry, Tracer: tracer,
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

// stop ends what has been started, the last first. It may be called twice. What
// is under way has stopTime to finish, whatever ctx says.
func (o *centre) stop(ctx context.Context) error {
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
