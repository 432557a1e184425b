package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// stopTime is how long what is under way has to finish once the process is told
// to stop.
const stopTime = 15 * time.Second

// originReady is DIR/origin.json, there while the origin is up.
type originReady struct {
	AdminURL string `json:"admin_url"`
	NATSURL  string `json:"nats_url"`
}

func runOrigin(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := newFlags("origin", "edge origin --data DIR --admin ADDR --nats-listen ADDR [flags]", stderr)
	var c centreConfig
	f.StringVar(&c.dir, "data", "", "`DIR` of the admin token, the NATS keys and the SQLite file")
	f.StringVar(&c.admin, "admin", "127.0.0.1:8090", "`ADDR` (host:port) of the admin API")
	f.StringVar(&c.adminCert, "admin-tls-cert", "", "PEM `FILE`: the admin API's certificate, read again when it changes")
	f.StringVar(&c.adminKey, "admin-tls-key", "", "PEM `FILE`: its key")
	f.Var(&c.adminProxies, "admin-trusted-proxies", "`CIDR` of proxies that may say by X-Forwarded-Proto that they were asked by HTTPS; may be given again")
	f.StringVar(&c.tokenFile, "admin-token-file", "", "`FILE` with the admin token, made 0600 when it is not there (default DIR/admin.token)")
	f.StringVar(&c.natsListen, "nats-listen", "127.0.0.1:4222", "`ADDR` (host:port) of the embedded NATS server")
	f.StringVar(&c.natsCert, "nats-tls-cert", "", "PEM `FILE`: the embedded NATS server's certificate, read again when it changes")
	f.StringVar(&c.natsKey, "nats-tls-key", "", "PEM `FILE`: its key")
	f.StringVar(&c.natsURL, "nats", "", "`URL` of a NATS cluster, or several by comma, in place of the embedded server; its servers include DIR/cluster.conf of --nats-keys")
	f.StringVar(&c.natsKeys, "nats-keys", "", "`DIR` of the keys that sign nodes' credentials, the same for all origins of a cluster (default DIR/nats, made on first start)")
	f.StringVar(&c.natsCredentials, "nats-credentials", "", "`FILE` of credentials for that cluster (default: made)")
	f.StringVar(&c.natsCA, "nats-ca", "", "PEM `FILE` of who signs that cluster's certificates (default: the system's)")
	f.StringVar(&c.database, "database", "", "postgres://… `URL` (default: SQLite, DIR/origin.db)")
	f.StringVar(&c.secretsFile, "secrets-file", "", "`FILE` of the keys that signing secrets are sealed with, the same for all origins of a database (default DIR/secrets.keys, made 0600)")
	c.webhookFlags(f)
	c.traces.traceFlags(f)
	f.logging(slog.LevelInfo)
	if err := f.parse(args); err != nil {
		return err
	}
	if err := f.required("data"); err != nil {
		return err
	}
	if err := c.traces.check(f); err != nil {
		return err
	}
	if (c.adminCert == "") != (c.adminKey == "") {
		return usagef(f.hint(), "origin: --admin-tls-cert and --admin-tls-key go together")
	}
	c.log = f.logger()

	release, err := lockDir(c.dir)
	if err != nil {
		return err
	}
	defer release()
	ready := filepath.Join(c.dir, "origin.json")
	_ = os.Remove(ready) // an earlier process may have been killed

	o, err := startCentre(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.stop(ctx)) }()
	if err := writeJSON(ready, originReady{o.AdminURL(), o.NATSURL()}); err != nil {
		return fmt.Errorf("writing %s: %w", ready, err)
	}
	defer os.Remove(ready)
	fmt.Fprintf(stdout, "edge origin: ready, admin API %s, NATS %s\n", o.AdminURL(), o.NATSURL())
	<-ctx.Done()
	return nil
}
