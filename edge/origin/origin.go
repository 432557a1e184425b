// Package origin is the process that regional nodes talk to. It keeps accounts,
// agents and keys, takes in insights, firings and other events, and serves the
// admin API over all of it.
//
// Start brings up, in this order, NATS (embedded, or a connection to a cluster),
// replication to the nodes, rollouts, and the admin API on a listener of its own.
// Everything that must last is in SQL; an origin process holds nothing that
// another could not take over, so that several can share one database and one
// NATS cluster.
package origin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"partneredge/edge/certificate"
	"partneredge/edge/origin/admin"
	"partneredge/edge/origin/broker"
	"partneredge/edge/origin/listener"
	"partneredge/edge/origin/natsauth"
	"partneredge/edge/origin/replication"
	"partneredge/edge/origin/rollout"
	"partneredge/store"
)

// Origin that has been started.
type Origin struct {
	broker      *broker.Broker
	replication *replication.Server
	rollouts    *rollout.Controller
	retention   *retention
	admin       *listener.Server

	stopOnce sync.Once
	stopErr  error
}

// Start an origin. It returns once nodes and operators are answered; ctx bounds
// the start only. The caller ends it with Stop.
func Start(ctx context.Context, c Config) (_ *Origin, err error) {
	if c.Dir == "" || c.DB == nil || c.Guard == nil {
		return nil, errors.New("starting the origin: Dir, DB and Guard are required")
	}
	c = c.withDefaults()
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	authority, err := natsauth.Open(c.NATSKeys)
	if err != nil {
		return nil, err
	}
	o := new(Origin)
	defer func() {
		if err != nil {
			// What has been started is ended; why it ended matters less than err.
			_ = o.Stop(context.WithoutCancel(ctx))
		}
	}()
	if o.broker, err = c.startBroker(ctx, authority); err != nil {
		return nil, err
	}
	m := newMetrics(c.Metrics)
	if o.replication, err = replication.Start(ctx, replication.Config{
		DB: c.DB, Conn: o.broker.Conn(), Guard: c.Guard, Log: c.Log, Now: c.Now, Tracer: c.Tracer,
		Revoke: o.broker.Revoke, OnWake: c.OnWake, Observe: m.request, ObserveRefused: m.refusedLeads, ObserveRefusal: m.refusal,
		ObserveUnread: m.unread.Inc, AllowOldNodes: c.AllowOldNodes,
	}); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	o.rollouts = rollout.Start(rollout.Config{
		DB: c.DB, Conn: o.broker.Conn(), Nodes: o.replication.Presence(), Log: c.Log, Now: c.Now,
	})
	o.retention = startRetention(c)
	if o.admin, err = o.startAdmin(c, m, authority); err != nil {
		return nil, err
	}
	m.register(c, o.replication, o.retention.clock, o.admin)
	c.Log.Info("origin is up", "admin", o.AdminURL(), "nats", o.NATSURL(), "database", c.DB.Kind(),
		"nodes", len(o.replication.Presence().Enrolled()))
	return o, nil
}

func (c Config) startBroker(ctx context.Context, authority *natsauth.Authority) (*broker.Broker, error) {
	nodes, err := replication.ReadNodes(ctx, c.DB)
	if err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	if err := c.enrolShared(ctx); err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	revoked, err := replication.Revoked(ctx, c.DB, nodes)
	if err != nil {
		return nil, fmt.Errorf("starting the origin: %w", err)
	}
	get, err := c.certificate("nats", c.NATSCert, c.NATSKey)
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}
	b, err := broker.Start(broker.Config{
		Authority: authority, Log: c.Log, Revoked: revoked,
		Listen: c.NATSListen, LeafListen: c.NATSLeafListen, Certificate: get,
		URL: c.NATSURL, Credentials: c.NATSCredentials, CA: c.NATSCA, Dir: c.NATSKeys, HandshakeTimeout: c.HandshakeTimeout,
	})
	if err == nil {
		err = c.enrolShared(ctx) // which may be others now
	}
	if err != nil && b != nil {
		b.Close()
		b = nil
	}
	return b, err
}

// enrolShared notes the credentials that an earlier program made for the NATS servers of
// all regions together, so that they can be revoked.
func (c Config) enrolShared(ctx context.Context) error {
	public, system := natsauth.SharedKeys(c.NATSKeys)
	if public == "" || system == "" {
		return nil
	}
	_, err := c.DB.AddRegionServer(ctx, store.RegionServer{PublicKey: public, SystemKey: system})
	if errors.Is(err, store.ErrConflict) {
		return nil // they are noted
	}
	return err
}

func (o *Origin) startAdmin(c Config, m *metrics, authority *natsauth.Authority) (*listener.Server, error) {
	get, err := c.certificate("admin", c.AdminCert, c.AdminKey)
	if err != nil {
		return nil, fmt.Errorf("starting the admin API: %w", err)
	}
	return listener.Start(listener.Config{
		Addr: c.AdminAddr, Certificate: get, TokenFile: c.AdminTokenFile, WrongTokens: c.WrongTokens, Proxies: c.AdminProxies,
		HandshakeTimeout: c.HandshakeTimeout,
		Admin: admin.Config{
			DB: c.DB, Nodes: o.replication.Presence(), Lockouts: o.replication.Lockouts, Requests: o.replication.AnsweredRequests, Rollouts: o.rollouts,
			Credentials: authority.NodeUser, Regions: regions{o.broker, authority}, Tail: c.Tail,
			Log: c.Log, Now: c.Now, Tracer: c.Tracer,
		},
		Console: c.Console, Ready: o.broker.Ready,
		Metrics: promhttp.HandlerFor(c.Metrics, promhttp.HandlerOpts{}), Observe: m.adminRequest,
	})
}

// certificate of two files, which may change; nil where there are none. A metric
// says when the listener's expires.
func (c Config) certificate(name, cert, key string) (certificate.Get, error) {
	expiry := new(certificate.Expiry)
	c.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "edge_origin_certificate_expiry_timestamp_seconds", ConstLabels: prometheus.Labels{"listener": name},
		Help: "When the certificate of a listener (admin, nats) expires, in seconds since 1970; 0 without TLS.",
	}, expiry.Seconds))
	if cert == "" && key == "" {
		return nil, nil
	}
	files, err := certificate.Open(certificate.FilesConfig{Cert: cert, Key: key, Log: c.Log, Now: c.Now})
	if err != nil {
		return nil, err
	}
	return expiry.WatchFiles(files), nil
}

// AdminURL returns the address of the admin API without /admin/v1, such as
// http://127.0.0.1:8081; https:// when there is a certificate.
func (o *Origin) AdminURL() string { return o.admin.URL() }

// NATSURL returns the address that nodes connect to, such as
// nats://127.0.0.1:4222; tls:// when there is a certificate.
func (o *Origin) NATSURL() string { return o.broker.URL() }

// Token returns the admin token.
func (o *Origin) Token() string { return o.admin.Token() }

// Stop ends the origin: first the admin API, then retention, rollouts and the nodes'
// requests, and NATS last. What is under way is finished, or cut short when ctx ends. It returns
// when all is ended, and may be called again.
func (o *Origin) Stop(ctx context.Context) error {
	o.stopOnce.Do(func() {
		if o.admin != nil {
			o.stopErr = o.admin.Stop(ctx)
		}
		if o.retention != nil {
			o.retention.stop()
		}
		if o.rollouts != nil {
			o.rollouts.Stop()
		}
		if o.replication != nil {
			o.replication.Stop(ctx)
		}
		if o.broker != nil {
			o.broker.Close()
		}
	})
	return o.stopErr
}
