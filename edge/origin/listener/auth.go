package listener

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"partneredge/edge/origin/admin"
	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/store/durable"
)

// refusal is why a request is not served: its token, or too many wrong ones before it.
type refusal struct {
	reason     string
	retryAfter time.Duration // 0: a token that is missing or wrong
}

func (r *refusal) Error() string { return strings.ReplaceAll(r.reason, "_", " ") }

func (r *refusal) status() int {
	if r.retryAfter > 0 {
		return http.StatusTooManyRequests
	}
	return http.StatusUnauthorized
}

// fileActor is the id of the actor that has the token of the file.
const fileActor = "file"

// actor returns the actor that sends the request, by its bearer token.
func (s *Server) actor(r *http.Request) (store.Actor, error) {
	sent, err := bearer(r)
	if err != nil {
		return store.Actor{}, err
	}
	return s.holder(r, sent)
}

// bearer returns the bearer token that a request carries.
func bearer(r *http.Request) (string, error) {
	scheme, sent, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return "", &refusal{reason: "missing_bearer_token"}
	}
	return strings.TrimSpace(sent), nil
}

// holder returns the actor that has a token. Who presents wrong ones is slowed down,
// and named in the audit log.
func (s *Server) holder(r *http.Request, sent string) (store.Actor, error) {
	client, hash := s.Proxies.Client(r), sha256.Sum256([]byte(sent))
	if s.isFileToken(hash) { // which no number of guesses finds: it must not wait for theirs
		return store.Actor{ID: fileActor, Name: "token file", Role: store.RoleAdmin, Remote: addressText(client)}, nil
	}
	if wait := s.attempts.Wait(client, hash); wait > 0 {
		return store.Actor{}, &refusal{reason: "too_many_wrong_tokens", retryAfter: wait}
	}
	actor, err := s.find(r.Context(), sent, hash)
	actor.Remote = addressText(client)
	switch refused := new(refusal); {
	case err == nil:
		s.attempts.Right(client, hash)
	case errors.As(err, &refused):
		s.noteWrong(r.Context(), actor, s.attempts.Wrong(client))
	}
	return actor, err
}

// noteReports writes to the audit log the wrong tokens that were not noted as they came.
func (s *Server) noteReports(ctx context.Context) {
	named, others := s.attempts.Reports()
	for _, one := range named {
		s.noteWrong(ctx, store.Actor{Remote: addressText(one.Client)}, one.Tokens)
	}
	s.noteWrong(ctx, store.Actor{Remote: "others"}, others)
}

// noteWrong writes to the audit log how many wrong tokens an address has presented.
func (s *Server) noteWrong(ctx context.Context, actor store.Actor, tokens int) {
	if tokens == 0 {
		return
	}
	actor.Name = cmp.Or(actor.Name, "unknown")
	ctx = audit.WithActor(context.WithoutCancel(ctx), actor)
	if err := s.db.Audit(ctx, "login.refuse", cmp.Or(actor.Remote, "unknown"), map[string]int{"wrong_tokens": tokens}); err != nil {
		s.log.Warn("wrong tokens are not in the audit log", "remote", actor.Remote, "tokens", tokens, "err", err)
	}
}

// isFileToken reports whether a token, given by its SHA-256, is that of the file.
// Hashing first makes the comparison take as long whatever is sent.
func (s *Server) isFileToken(got [32]byte) bool {
	want := sha256.Sum256([]byte(s.token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// find returns the actor that has a token other than the file's. Of a revoked token it
// returns whose it was, with the error.
func (s *Server) find(ctx context.Context, sent string, got [32]byte) (actor store.Actor, err error) {
	wrong := &refusal{reason: "wrong_token"}
	if !isToken(sent) {
		return actor, wrong
	}
	token, err := s.db.TokenByHash(ctx, got)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return actor, wrong
	case err != nil:
		return actor, err
	}
	actor = store.Actor{ID: token.ID, Name: token.Name, Role: token.Role}
	if !token.RevokedAt.IsZero() {
		return actor, &refusal{reason: "token_revoked"}
	}
	now := s.db.Now()
	if !token.ExpiresAt.IsZero() && !now.Before(token.ExpiresAt) {
		return actor, &refusal{reason: "token_expired"}
	}
	if now.Sub(token.LastUsedAt) >= usedEvery && s.uses.due(token.ID, now) {
		s.noteUse(context.WithoutCancel(ctx), token.ID, now)
	}
	return actor, nil
}

// noteUse notes the use of a token that is due, and waits for that for a second at most: a
// database that takes no writes keeps nobody from reading.
func (s *Server) noteUse(ctx context.Context, id string, now time.Time) {
	noted := make(chan struct{})
	go func() {
		defer s.uses.noting.Done()
		defer close(noted)
		if err := s.db.UsedToken(ctx, id, now); err != nil {
			s.log.Debug("the use of a token is not noted", "token", id, "err", err)
		}
	}()
	select {
	case <-noted:
	case <-time.After(time.Second):
	}
}

// usedEvery is the least time between two notes of a token's use.
const usedEvery = time.Minute

// uses holds when this process last noted the use of each token, so that requests that
// come at once do not all note it. Its zero value holds none.
type uses struct {
	mu     sync.Mutex
	at     map[string]time.Time
	noting sync.WaitGroup
	ended  bool // no more is noted
}

// due reports whether the use of a token is to be noted now, and takes it for noted. Whoever
// then notes it says when that is done, by noting.
func (u *uses) due(id string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended || now.Sub(u.at[id]) < usedEvery {
		return false
	}
	u.noting.Add(1)
	if u.at == nil {
		u.at = make(map[string]time.Time)
	}
	u.at[id] = now
	return true
}

// end waits until all that is due is noted, or ctx ends: a note that comes later fails, since
// the database is closed.
func (u *uses) end(ctx context.Context) {
	u.mu.Lock()
	u.ended = true
	u.mu.Unlock()
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		u.noting.Wait()
	}()
	select {
	case <-noted:
	case <-ctx.Done():
	}
}

// addressText returns an address as text, "" of none.
func addressText(at netip.Addr) string {
	if at.IsValid() {
		return at.String()
	}
	return ""
}

// isToken reports whether s has the form of a token, before the database is asked.
func isToken(s string) bool {
	digits, found := strings.CutPrefix(s, admin.TokenPrefix)
	if !found || len(digits) != 64 {
		return false
	}
	_, err := hex.DecodeString(digits)
	return err == nil
}

// minToken is the shortest admin token that is taken, in characters.
const minToken = 16

// openToken reads the admin token, which only its owner may be able to read, and
// makes one when there is no file: 32 random bytes in hex.
func openToken(path string) (string, error) {
	text, err := durable.ReadPrivate(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := durable.CreateFile(path, []byte(admin.RandomHex()), 0o600); err != nil && !errors.Is(err, os.ErrExist) {
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
