// Package broker runs, or joins, the NATS that origin and nodes meet at: a server
// inside this process, or a cluster elsewhere.
package broker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/certificate"
	"partneredge/edge/origin/natsauth"
)

// repeatRevocations separates two announcements of the revoked nodes to a cluster, and to
// the servers of regions: a server that was down meanwhile comes back with what it knew.
const repeatRevocations = 10 * time.Second

// Config of a broker. Authority and Log are required.
type Config struct {
	Authority *natsauth.Authority
	Log       *slog.Logger
	// Revoked holds the public keys of the revoked users, and since when.
	Revoked map[string]time.Time

	// Listen is where the embedded server listens, host:port; port 0 is any free one.
	Listen string
	// LeafListen is where the embedded server takes the NATS servers of regions, its leaf
	// nodes, host:port; port 0 is any free one. "": it takes none.
	LeafListen string
	// Certificate of the embedded server, which then takes only TLS 1.3. nil: no TLS.
	Certificate certificate.Get
	// HandshakeTimeout bounds TLS with the embedded server, and the time until a client has
	// shown its credentials. 0: 5 s, and 10 s.
	HandshakeTimeout time.Duration

	// URL of the cluster to join, or several by comma. "": an embedded server.
	URL string
	// Credentials is the .creds file to join a cluster with. "": a user made with
	// Authority.
	Credentials string
	// CA is a PEM file of who may sign the cluster's certificates. "": the system's.
	CA string
	// Dir gets the file that the cluster's servers include. It may hold credentials that an
	// earlier program made for the servers of regions, which are renewed there.
	Dir string
}

// Broker is the origin's side of NATS.
type Broker struct {
	config Config
	conn   *nats.Conn
	url    string
	server servers

	mu      sync.Mutex
	revoked map[string]time.Time // what the servers were last told
	told    time.Time            // when
}

// servers carries out revocations.
type servers interface {
	revoke(ctx context.Context, revoked map[string]time.Time) error
	close() // waits until what runs in this process is gone
}

// Start runs an embedded server, or joins the cluster at cfg.URL. The caller ends
// it with Close.
func Start(cfg Config) (*Broker, error) {
	b := &Broker{config: cfg}
	start := b.join
	if cfg.URL == "" {
		b.revoked = maps.Clone(cfg.Revoked) // the embedded server starts with them
		start = b.embed
	}
	if err := start(); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// Conn returns the origin's own connection.
func (b *Broker) Conn() *nats.Conn { return b.conn }

// URL returns the address that nodes connect to.
func (b *Broker) URL() string { return b.url }

// Ready reports whether nodes can be reached.
func (b *Broker) Ready() bool { return b.conn.IsConnected() }

// Revoke sends the revoked users to servers that do not have them yet. They end
// those users' connections at once.
func (b *Broker) Revoke(ctx context.Context, revoked map[string]time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	again := (b.config.URL != "" || b.config.LeafListen != "") && len(revoked) > 0 && time.Since(b.told) > repeatRevocations
	if maps.EqualFunc(revoked, b.revoked, time.Time.Equal) && !again {
		return nil
	}
	if err := b.server.revoke(ctx, revoked); err != nil {
		return fmt.Errorf("revoking NATS users: %w", err)
	}
	b.revoked, b.told = maps.Clone(revoked), time.Now()
	return nil
}

// Revoked returns the public keys of the users that the servers were last told are
// revoked, and since when.
func (b *Broker) Revoked() map[string]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.revoked)
}

// Close ends the connection and the embedded server, and waits until it is gone.
func (b *Broker) Close() {
	if b.conn != nil {
		b.conn.Close()
	}
	if b.server != nil {
		b.server.close()
	}
}

// connect makes the origin's own connection.
func (b *Broker) connect(url string, more ...nats.Option) (err error) {
	log := b.config.Log
	b.conn, err = nats.Connect(url, append([]nats.Option{
		nats.Name("origin"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(500 * time.Millisecond),
		nats.IgnoreAuthErrorAbort(), // a server may come back before it has its configuration
		nats.Timeout(5 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			log.Warn("NATS reports an error", "subject", subject, "err", err)
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("nats connection lost", "err", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { log.Info("nats connection is back") }),
	}, more...)...)
	return err
}
