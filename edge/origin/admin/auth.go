package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/audit"
)

// adminsOnly are the routes that need the role admin. Of the others a GET needs viewer,
// the rest operator.
//
// A token lets somebody else in, and the credentials of a node or of a region's server
// let a machine in. An account that is deleted is gone for good, also by a tombstone, and
// an export is all that is known of many people at once.
var adminsOnly = [...]string{
	"POST /admin/v1/tokens", "GET /admin/v1/tokens", "POST /admin/v1/tokens/{id}/revoke",
	"DELETE /admin/v1/accounts/{id}", "GET /admin/v1/accounts/{id}/export", "POST /admin/v1/tombstones",
	"POST /admin/v1/nodes", "POST /admin/v1/nodes/{id}/revoke", "DELETE /admin/v1/nodes/{id}",
	"POST /admin/v1/regions", "POST /admin/v1/regions/{id}/revoke",
}

// least returns the lowest role that may use a route.
func least(pattern string) store.Role {
	switch {
	case slices.Contains(adminsOnly[:], pattern):
		return store.RoleAdmin
	case strings.HasPrefix(pattern, "GET "):
		return store.RoleViewer
	default:
		return store.RoleOperator
	}
}

// TokenPrefix begins the plaintext of every token, so that scanners of leaked
// secrets can know one.
const TokenPrefix = "edgeadm_"

// RandomHex returns 32 random bytes in hex: a token, or the secret of a
// subscription as a partner gets one.
func RandomHex() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(random[:])
}

// createToken shows the plaintext, which nobody can show again.
func (a *api) createToken(r *http.Request, in adminapi.NewToken, v *input.Validator) (answer, error) {
	token := store.Token{
		Name: v.Text("name", in.Name, input.MaxName),
		Role: store.Role(v.OneOf("role", in.Role, string(store.RoleViewer), string(store.RoleOperator), string(store.RoleAdmin))),
	}
	if token.ExpiresAt = v.Time("expires_at", in.ExpiresAt); in.ExpiresAt != nil && v.Err() == nil && !token.ExpiresAt.After(a.DB.Now()) {
		v.Fail("expires_at", "past", "expires_at must be to come")
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	plaintext := TokenPrefix + RandomHex()
	token.Hash = sha256.Sum256([]byte(plaintext))
	token, err := a.DB.CreateToken(r.Context(), token)
	return created(adminapi.MintedToken{Token: toToken(token), Plaintext: plaintext}, err)
}

// whoami answers with the actor that the token belongs to.
func (a *api) whoami(r *http.Request) (answer, error) {
	actor, _ := audit.ActorOf(r.Context()) // authenticated has set it
	return ok(adminapi.Whoami{ID: actor.ID, Name: actor.Name, Role: string(actor.Role)}, nil)
}

// listAudit shows who changed what; ?target selects one record's changes, ?since and
// ?until those of a time.
func (a *api) listAudit(r *http.Request) (answer, error) {
	span, err := spanOf(r)
	if err != nil {
		return answer{}, err
	}
	return page(r, func(p store.Page) ([]store.Audit, string, error) {
		return a.DB.Audits(r.Context(), central.AuditFilter{Target: r.URL.Query().Get("target"), Span: span}, p)
	}, toAudit)
}
