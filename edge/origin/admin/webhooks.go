package admin

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
)

func (a *api) listLeads(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Lead, string, error) {
		return a.DB.Leads(r.Context(), r.PathValue("id"), p)
	}, toLead)
}

func (a *api) listWebhooks(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Subscription, string, error) {
		return a.DB.Subscriptions(r.Context(), r.PathValue("id"), p)
	}, a.toWebhook)
}

func (a *api) toWebhook(s store.Subscription) adminapi.Webhook { return toWebhook(s, a.Now()) }

func (a *api) getWebhook(r *http.Request) (answer, error) {
	s, err := a.DB.Subscription(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(a.toWebhook(s))
}

// Bounds of an overlap.
const (
	maxOverlap     = 30 * 24 * time.Hour
	defaultOverlap = 24 * time.Hour
)

// rotateSecret gives a subscription a new secret, which nobody can show again.
// The one before signs as well until the overlap ends; of earlier ones nothing
// is left.
func (a *api) rotateSecret(r *http.Request) (answer, error) {
	var in adminapi.SecretRotation
	if err := decodeOptional(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_rotation"}
	overlap := c.between("overlap_seconds", in.OverlapSeconds, 0, int64(maxOverlap/time.Second), int64(defaultOverlap/time.Second))
	if err := c.err(); err != nil {
		return answer{}, err
	}
	until := a.Now().UTC().Add(time.Duration(overlap) * time.Second)
	secret := newSecret()
	s, err := a.DB.RotateSecret(r.Context(), r.PathValue("id"), secret, until)
	if err != nil {
		return answer{}, err
	}
	return created(adminapi.RotatedSecret{Webhook: a.toWebhook(s), Secret: secret, OverlapUntil: stamp(until)})
}

// newSecret is as a partner's subscription gets one: 32 random bytes in hex.
func newSecret() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(random[:])
}
