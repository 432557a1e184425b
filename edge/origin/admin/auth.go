package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/store/central/audit"
	"partneredge/store/durable"
)

// Who may do what:
//
//	             read  accounts, keys, ingest,    tokens, nodes
//	                   deliveries, all the rest   (make, list, revoke)
//	viewer       yes   -                          nodes: read
//	operator     yes   yes                        nodes: read
//	admin        yes   yes                        yes
//
// An account that is deleted is gone for good, and an export is all that is known of
// many people at once, so both are the admins' as well.
// Keys are the operators' daily work. A token lets somebody else in, and a
// node's credentials let a machine read every key, so both are the admins'.
var adminsOnly = [...]string{
	"POST /admin/v1/tokens", "GET /admin/v1/tokens", "POST /admin/v1/tokens/{id}/revoke",
	"DELETE /admin/v1/accounts/{id}", "GET /admin/v1/accounts/{id}/export", "POST /admin/v1/tombstones",
	"POST /admin/v1/nodes", "POST /admin/v1/nodes/{id}/revoke", "DELETE /admin/v1/nodes/{id}",
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

// fileActor is the id of the actor that has the token of the file.
const fileActor = "file"

// actor returns the actor that sends the request, by its bearer token.
func (a *api) actor(r *http.Request) (store.Actor, error) {
	scheme, sent, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return store.Actor{}, &problem{Kind: kindUnauthorized, Reason: "missing_bearer_token"}
	}
	return a.holder(r, strings.TrimSpace(sent))
}

// holder returns the actor that has a token. Who presents wrong ones is slowed down,
// and named in the audit log.
func (a *api) holder(r *http.Request, sent string) (store.Actor, error) {
	client, hash := peer(r), sha256.Sum256([]byte(sent))
	if a.isFileToken(hash) { // which no number of guesses finds: it must not wait for theirs
		return store.Actor{ID: fileActor, Name: "token file", Role: store.RoleAdmin, Remote: remote(r)}, nil
	}
	if wait := a.attempts.Wait(client, hash); wait > 0 {
		return store.Actor{}, &problem{Kind: kindLimited, Reason: "too_many_wrong_tokens", Detail: "too many wrong tokens from this address; try again later", retryAfter: wait}
	}
	actor, err := a.find(r.Context(), sent, hash)
	actor.Remote = remote(r)
	switch p := new(problem); {
	case err == nil:
		a.attempts.Right(client, hash)
	case errors.As(err, &p):
		a.noteWrong(r.Context(), actor, a.attempts.Wrong(client))
	}
	return actor, err
}

// noteWrong writes to the audit log how many wrong tokens an address has presented.
func (a *api) noteWrong(ctx context.Context, actor store.Actor, tokens int) {
	if tokens == 0 {
		return
	}
	actor.Name = cmp.Or(actor.Name, "unknown")
	ctx = audit.WithActor(context.WithoutCancel(ctx), actor)
	if err := a.DB.Audit(ctx, "login.refuse", cmp.Or(actor.Remote, "unknown"), map[string]int{"wrong_tokens": tokens}); err != nil {
		a.Log.Warn("wrong tokens are not in the audit log", "remote", actor.Remote, "tokens", tokens, "err", err)
	}
}

// isFileToken reports whether a token, given by its SHA-256, is that of the file.
// Hashing first makes the comparison take as long whatever is sent.
func (a *api) isFileToken(got [32]byte) bool {
	want := sha256.Sum256([]byte(a.token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// find returns the actor that has a token other than the file's. Of a revoked token it
// returns whose it was, with the error.
func (a *api) find(ctx context.Context, sent string, got [32]byte) (actor store.Actor, err error) {
	wrong := &problem{Kind: kindUnauthorized, Reason: "wrong_token"}
	if !isToken(sent) {
		return actor, wrong
	}
	token, err := a.DB.TokenByHash(ctx, got)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return actor, wrong
	case err != nil:
		return actor, err
	}
	actor = store.Actor{ID: token.ID, Name: token.Name, Role: token.Role}
	if !token.RevokedAt.IsZero() {
		return actor, &problem{Kind: kindUnauthorized, Reason: "token_revoked"}
	}
	now := a.DB.Now()
	if !token.ExpiresAt.IsZero() && !now.Before(token.ExpiresAt) {
		return actor, &problem{Kind: kindUnauthorized, Reason: "token_expired"}
	}
	if now.Sub(token.LastUsedAt) >= usedEvery && a.uses.due(token.ID, now) {
		// A disk that is full keeps nobody from reading.
		if err := a.DB.UsedToken(context.WithoutCancel(ctx), token.ID, now); err != nil {
			a.Log.Debug("the use of a token is not noted", "token", token.ID, "err", err)
		}
	}
	return actor, nil
}

// usedEvery is the least time between two notes of a token's use.
const usedEvery = time.Minute

// uses holds when this process last noted the use of each token, so that requests that
// come at once do not all note it. Its zero value holds none.
type uses struct {
	mu sync.Mutex
	at map[string]time.Time
}

// due reports whether the use of a token is to be noted now, and takes it for noted.
func (u *uses) due(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.at[id]) < usedEvery {
		return false
	}
	if u.at == nil {
		u.at = make(map[string]time.Time)
	}
	u.at[id] = now
	return true
}

// peer returns the address that a request comes from, none when it has none.
func peer(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap().WithZone("")
}

// remote returns the address of the peer, "" when it has none.
func remote(r *http.Request) string {
	if at := peer(r); at.IsValid() {
		return at.String()
	}
	return ""
}

// tokenPrefix begins the plaintext of every token, so that scanners of leaked
// secrets can know one.
const tokenPrefix = "edgeadm_"

// isToken reports whether s has the form of a token, before the database is asked.
func isToken(s string) bool {
	digits, found := strings.CutPrefix(s, tokenPrefix)
	if !found || len(digits) != 64 {
		return false
	}
	_, err := hex.DecodeString(digits)
	return err == nil
}

// randomHex returns 32 random bytes in hex: a token, or the secret of a
// subscription as a partner gets one.
func randomHex() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(random[:])
}

// createToken shows the plaintext, which nobody can show again.
func (a *api) createToken(r *http.Request, in adminapi.NewToken, v *validator) (answer, error) {
	token := store.Token{
		Name: v.text("name", in.Name, maxName),
		Role: store.Role(v.oneOf("role", in.Role, string(store.RoleViewer), string(store.RoleOperator), string(store.RoleAdmin))),
	}
	if token.ExpiresAt = v.time("expires_at", in.ExpiresAt); in.ExpiresAt != nil && v.err() == nil && !token.ExpiresAt.After(a.DB.Now()) {
		v.fail("expires_at", "past", "expires_at must be to come")
	}
	if err := v.err(); err != nil {
		return answer{}, err
	}
	plaintext := tokenPrefix + randomHex()
	token.Hash = sha256.Sum256([]byte(plaintext))
	token, err := a.DB.CreateToken(r.Context(), token)
	return created(adminapi.MintedToken{Token: toToken(token), Plaintext: plaintext}, err)
}

// whoami answers with the actor that the token belongs to.
func (a *api) whoami(r *http.Request) (answer, error) {
	actor, _ := audit.ActorOf(r.Context()) // authenticated has set it
	return ok(adminapi.Whoami{ID: actor.ID, Name: actor.Name, Role: string(actor.Role)}, nil)
}

// minToken is the shortest admin token that is taken, in characters.
const minToken = 16

// openToken reads the admin token, which only its owner may be able to read, and
// makes one when there is no file: 32 random bytes in hex.
func openToken(path string) (string, error) {
	text, err := durable.ReadPrivate(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := durable.CreateFile(path, []byte(randomHex()), 0o600); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("making the admin token: %w", err)
		}
		text, err = durable.ReadPrivate(path)
	}
	if err != nil {
		return "", fmt.Errorf("reading the admin token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("reading the admin token: %s must hold one word of at least %d characters", path, minToken)
	}
	return token, nil
}

// listAudit shows who changed what; ?target selects one record's changes.
func (a *api) listAudit(r *http.Request) (answer, error) {
	return page(r, func(p store.Page) ([]store.Audit, string, error) {
		return a.DB.Audits(r.Context(), central.AuditFilter{Target: r.URL.Query().Get("target")}, p)
	}, toAudit)
}
