package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"partneredge/edge/hosts"
	"partneredge/edge/origin/natsauth"
	"partneredge/edge/wire"
)

// join connects to a cluster, and first writes the file that its servers must
// include.
func (b *Broker) join() error {
	c := b.config
	b.url, b.server = c.URL, cluster{c}
	if hosts.Exposed(c.URL) {
		c.Log.Warn("the way to NATS is not encrypted: use tls:// off this machine", "nats", c.URL)
	}
	if err := c.Authority.WriteCluster(c.Dir, c.Revoked); err != nil {
		return fmt.Errorf("joining NATS: %w", err)
	}
	user := []nats.Option{nats.UserCredentials(c.Credentials)}
	if c.Credentials == "" {
		credentials, err := c.Authority.OriginUser()
		if err != nil {
			return fmt.Errorf("joining NATS: %w", err)
		}
		user[0] = nats.UserCredentialBytes([]byte(credentials))
	}
	err := b.connect(c.URL, append(c.roots(), user...)...)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("joining NATS at %s: %w: do its servers run, and include %s?", c.URL, err, filepath.Join(c.Dir, natsauth.ClusterFile))
	case err != nil:
		return fmt.Errorf("joining NATS at %s: %w", c.URL, err)
	}
	if got := b.conn.MaxPayload(); got < wire.MaxPayload {
		return fmt.Errorf("joining NATS at %s: its max_payload is %d, and must be at least %d", c.URL, got, wire.MaxPayload)
	}
	return nil
}

// roots returns the option that names the authorities of the cluster's
// certificates, none for the system's.
func (c Config) roots() []nats.Option {
	if c.CA == "" {
		return nil
	}
	return []nats.Option{nats.RootCAs(c.CA)}
}

// cluster is servers that others run.
type cluster struct{ config Config }

func (cluster) close() {}

// revoke hands the accounts' new JWTs to the cluster's resolver.
func (c cluster) revoke(ctx context.Context, revoked map[string]time.Time) error {
	credentials, err := c.config.Authority.SystemUser()
	if err != nil {
		return err
	}
	conn, err := nats.Connect(c.config.URL, append(c.config.roots(),
		nats.UserCredentialBytes([]byte(credentials)), nats.Name("origin revocation"), nats.Timeout(5*time.Second))...)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, sign := range []func(map[string]time.Time) (*jwt.AccountClaims, string, error){c.config.Authority.SignAccount, c.config.Authority.SignSystem} {
		_, text, err := sign(revoked)
		if err == nil {
			err = update(ctx, conn, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// update hands an account's new JWT to the cluster's resolver.
func update(ctx context.Context, conn *nats.Conn, account string) error {
	reply, err := conn.RequestWithContext(ctx, natsauth.ClaimsUpdate, []byte(account))
	if err != nil {
		return err
	}
	var answer server.ServerAPIClaimUpdateResponse
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("the resolver refused: %s", answer.Error.Description)
	}
	return nil
}
