package deliveries

import (
	"context"
	"time"

	"partneredge/store"
	"partneredge/store/central/db"
)

// Endpoint describes where a subscription's deliveries go.
type Endpoint struct {
	TargetURL   string
	Secrets     []string  // that sign, the newest first
	FailingFrom time.Time // zero when its last try went well
	// Deliverable: not revoked, made with a live key, of an account that is live.
	Deliverable bool
}

// EndpointsVersion rises before any call of this process that changes an endpoint
// returns: what was read at an earlier version may be old.
func (s *Store) EndpointsVersion() uint64 { return s.version.Load() }

// EndpointsChanged raises EndpointsVersion. It is called after a commit that
// changed an endpoint, or may have.
func (s *Store) EndpointsChanged() { s.version.Add(1) }

// Endpoints reads the endpoints of subscriptions by id. One that does not exist
// is missing.
func (s *Store) Endpoints(ctx context.Context, subscriptions []string) (map[string]Endpoint, error) {
	all, err := s.endpoints(ctx, s.db, subscriptions)
	return all, db.Fail("read endpoints", err)
}

func (s *Store) endpoints(ctx context.Context, q db.Querier, subscriptions []string) (map[string]Endpoint, error) {
	all := make(map[string]Endpoint, len(subscriptions))
	err := db.Each(ctx, q, func(row db.Row) error {
		var id string
		var e Endpoint
		var revokedAt time.Time
		var environment store.Environment
		var mode store.Mode
		var keys Signing
		err := row.Scan(append([]any{&id, &e.TargetURL, db.Time(&revokedAt), db.Time(&e.FailingFrom), &environment, &mode}, keys.Scan()...)...)
		if err == nil {
			e.Secrets = s.secrets(id, keys)
			e.Deliverable = revokedAt.IsZero() && environment == store.Live && mode == store.ModeLive
			all[id] = e
		}
		return err
	}, `SELECT s.id, s.target_url, s.revoked_at, s.failing_from, s.environment, a.mode, `+SigningColumns+`
		FROM subscriptions s JOIN accounts a ON a.id = s.account_id WHERE `+s.db.In("s.id"), s.db.Set(subscriptions))
	if err != nil {
		return nil, err
	}
	return all, nil
}
