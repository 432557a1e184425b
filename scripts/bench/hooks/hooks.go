// Package hooks runs the webhook sender over a database for benches, and the endpoints
// that it posts to.
package hooks

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"partneredge/edge/webhook"
	"partneredge/scripts/bench/harness"
	"partneredge/store"
	"partneredge/store/central"
)

// Endpoints is the HTTPS server of partners' endpoints.
type Endpoints struct {
	*httptest.Server
	CAFile string // its certificate, as PEM
}

// Serve starts endpoints, whose certificate it writes to a file in dir.
func Serve(dir string, endpoints http.Handler) (*Endpoints, error) {
	certificate, err := harness.NewCertificate()
	if err != nil {
		return nil, err
	}
	e := &Endpoints{httptest.NewUnstartedServer(endpoints), filepath.Join(dir, "ca.pem")}
	e.EnableHTTP2 = true
	e.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	e.StartTLS()
	return e, os.WriteFile(e.CAFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600)
}

// StartSender starts a sender over db, as an origin does, that may post to loopback.
func StartSender(ctx context.Context, db *central.DB, c webhook.Config) (*webhook.Sender, error) {
	c.Store = db
	c.Guard = webhook.NewGuard(webhook.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	sender, err := webhook.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	db.OnCommit(func(c central.Commit) {
		if c.Deliveries > 0 {
			sender.Wake()
		}
	})
	return sender, nil
}

// Account makes a live account.
func Account(ctx context.Context, db *central.DB) (id string, err error) {
	a, err := db.CreateAccount(ctx, store.Account{Name: "Bench", Mode: store.ModeLive, Agent: store.Agent{Email: "bench@example.com", FullName: "Bench"}})
	return a.ID, err
}

// Subscribe makes a subscription of an account to the events of Fire.
func Subscribe(ctx context.Context, db *central.DB, account, target string) error {
	now := time.Now()
	return db.AddSubscription(ctx, store.Subscription{
		ID: store.NewID("whs", now), AccountID: account, KeyID: store.NewID("key", now),
		Environment: store.Live, TargetURL: target, Events: []string{store.EventSentinelFired},
		Secret: strings.Repeat("0123456789abcdef", 4), CreatedAt: now,
	})
}

// Fire makes an event of an account, whose envelope has about 256 bytes.
func Fire(ctx context.Context, db *central.DB, account string) (event string, err error) {
	_, e, err := db.AddFiring(ctx, store.Firing{AccountID: account, Name: "price_drop", Data: []byte("{}"), Action: "notified_agent_and_client"})
	if err != nil {
		return "", err
	}
	return e.ID, nil
}
