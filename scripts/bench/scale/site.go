package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"

	"partneredge/edge/closers"
	"partneredge/edge/origin/broker"
	"partneredge/edge/origin/natsauth"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
	"partneredge/scripts/bench/hooks"
	"partneredge/store"
	"partneredge/store/central"
)

// site is NATS and some origin processes, in this process, over one PostgreSQL
// schema.
type site struct {
	SQL       *sql.DB // for what is filled in by the million
	DB        *central.DB
	Authority *natsauth.Authority
	Broker    *broker.Broker
	Origins   []*replication.Server
	URL       string // of the schema

	closers.Stack // ends all that was started

	dir string
	log *slog.Logger
}

// onSite returns the part called name, which measures on a site of its own.
func (b *bench) onSite(name string, measure func(context.Context, *site) error) harness.Part {
	return harness.Part{Name: name, Measure: func(ctx context.Context) error {
		s, err := b.newSite(ctx, name)
		if err != nil {
			return err
		}
		return errors.Join(measure(ctx, s), s.Close(ctx))
	}}
}

// newSite starts the database and NATS. The caller closes it.
func (b *bench) newSite(ctx context.Context, name string) (_ *site, err error) {
	s := &site{
		dir: filepath.Join(b.Dir, name),
		log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close(ctx))
		}
	}()
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	url, drop, err := b.PostgresSchema(ctx, b.postgres)
	if err != nil {
		return nil, err
	}
	s.URL = url
	s.AddFunc(drop)
	if s.DB, err = s.open(ctx); err != nil {
		return nil, err
	}
	if s.SQL, err = sql.Open("pgx", url); err != nil {
		return nil, err
	}
	s.Add(func(context.Context) error { return s.SQL.Close() })
	if s.Authority, err = natsauth.Open(filepath.Join(s.dir, "nats")); err != nil {
		return nil, err
	}
	s.Broker, err = broker.Start(broker.Config{Authority: s.Authority, Log: s.log, Listen: "127.0.0.1:0", LeafListen: "127.0.0.1:0", Dir: filepath.Join(s.dir, "nats")})
	if err != nil {
		return nil, err
	}
	s.AddFunc(s.Broker.Close)
	return s, nil
}

func (s *site) open(ctx context.Context) (*central.DB, error) {
	db, err := central.Open(ctx, central.Config{URL: s.URL, Log: s.log})
	if err == nil {
		s.Add(func(context.Context) error { return db.Close() })
	}
	return db, err
}

// startOrigin starts one more origin process' part in replication, over db.
func (s *site) startOrigin(ctx context.Context, db *central.DB) (*replication.Server, error) {
	credentials, err := s.Authority.OriginUser()
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(s.Broker.URL(), nats.UserCredentialBytes([]byte(credentials)))
	if err != nil {
		return nil, err
	}
	s.AddFunc(conn.Close)
	server, err := replication.Start(ctx, replication.Config{
		DB: db, Conn: conn, Guard: fleet.AnyTarget{}, Log: s.log, Now: time.Now, Revoke: s.Broker.Revoke,
		OnWake: func() {}, Observe: func(string, wire.Failure, time.Duration) {},
		ObserveRefused: func(int, int) {}, ObserveRefusal: func(string, string, int) {}, ObserveUnread: func() {},
	})
	if err != nil {
		return nil, err
	}
	s.AddFunc(func() { server.Stop(context.WithoutCancel(ctx)) })
	s.Origins = append(s.Origins, server)
	return server, nil
}

// enrol enrols a node and returns the file of its credentials.
func (s *site) enrol(ctx context.Context, name string) (file string, err error) {
	id := store.NewID("node", time.Now())
	credentials, public, err := s.Authority.NodeUser(id, region)
	if err != nil {
		return "", err
	}
	if _, err := s.DB.AddNode(ctx, store.Node{ID: id, Name: name, Region: region, PublicKey: public, WireVersion: wire.Version}); err != nil {
		return "", err
	}
	file = filepath.Join(s.dir, name+".creds")
	return file, os.WriteFile(file, []byte(credentials), 0o600)
}

// region of all nodes.
const region = "bench"

// accounts makes n live accounts, from accountID(1) on.
func (s *site) accounts(ctx context.Context, n int) error {
	now := time.Now().UnixMicro()
	_, err := s.SQL.ExecContext(ctx, `INSERT INTO accounts (id, name, mode, created_at)
		SELECT 'acc_' || lpad(i::text, 26, '0'), 'bench', 'live', $1 FROM generate_series(1, $2::int) i`, now, n)
	if err != nil {
		return fmt.Errorf("making accounts: %w", err)
	}
	return nil
}

// accountID returns the id of the nth account.
func accountID(n int) string { return fmt.Sprintf("acc_%026d", n) }

// fire makes an event of the nth account.
func fire(ctx context.Context, db *central.DB, n int) error {
	_, err := hooks.Fire(ctx, db, accountID(n))
	return err
}
