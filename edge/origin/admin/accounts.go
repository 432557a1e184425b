package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

func (a *api) createAccount(r *http.Request, in adminapi.NewAccount, v *input.Validator) (answer, error) {
	account := store.Account{Name: v.Text("name", in.Name, input.MaxName), Mode: store.ModeSetup}
	if in.ActivationMode != nil {
		account.Mode = store.Mode(v.OneOf("activation_mode", in.ActivationMode, string(store.ModeLive), string(store.ModeSetup)))
	}
	if in.Agent == nil {
		v.Fail("agent", "required", "agent must have email and full_name")
	} else {
		account.Agent.Email = v.Email("agent.email", in.Agent.Email)
		account.Agent.FullName = v.Text("agent.full_name", in.Agent.FullName, input.MaxName)
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	account, err := a.DB.CreateAccount(r.Context(), account)
	return created(toAccount(account), err)
}

// patchAccount changes what is named and leaves the rest as it is.
func (a *api) patchAccount(r *http.Request, in adminapi.AccountPatch, v *input.Validator) (answer, error) {
	patch := central.AccountPatch{Name: in.Name}
	if in.Name != nil {
		v.Text("name", in.Name, input.MaxName)
	}
	if in.ActivationMode != nil {
		mode := store.Mode(v.OneOf("activation_mode", in.ActivationMode, string(store.ModeLive), string(store.ModeSetup)))
		patch.Mode = &mode
	}
	if in.Agent != nil {
		patch.Email, patch.FullName = in.Agent.Email, in.Agent.FullName
		if patch.Email != nil {
			v.Email("agent.email", patch.Email)
		}
		if patch.FullName != nil {
			v.Text("agent.full_name", patch.FullName, input.MaxName)
		}
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	account, _, err := a.DB.UpdateAccount(r.Context(), r.PathValue("id"), patch)
	return ok(toAccount(account), err)
}

// keyLifetime is the default lifetime of a key.
const keyLifetime = 365 * 24 * time.Hour

// defaultRate of a key, requests a minute.
const defaultRate = 100

// createKey shows the plaintext, which nobody can show again.
func (a *api) createKey(r *http.Request, in adminapi.NewKey, v *input.Validator) (answer, error) {
	key := store.Key{
		AccountID:   r.PathValue("id"),
		Environment: store.Environment(v.OneOf("environment", in.Environment, string(store.Live), string(store.Test))),
		Scopes:      v.Scopes("scopes", in.Scopes),
		Allowlist:   v.Prefixes("ip_allowlist", in.IPAllowlist),
		RateLimit:   int(v.Between("rate_limit", in.RateLimit, 1, input.MaxRate, defaultRate)),
		ExpiresAt:   v.Time("expires_at", in.ExpiresAt), // the past is allowed: an expired key to test with
		Label:       v.Optional("label", in.Label, input.MaxLabel),
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	if key.ExpiresAt.IsZero() {
		key.ExpiresAt = a.DB.Now().Add(keyLifetime)
	}
	plaintext := mint(key.Environment)
	key.Hash = sha256.Sum256([]byte(plaintext))
	key, err := a.DB.CreateKey(r.Context(), key)
	return created(adminapi.MintedKey{Key: a.toKey(key), Plaintext: plaintext}, err)
}

// mint makes the plaintext of a key.
func mint(env store.Environment) string {
	for {
		var random [apikey.RandomSize]byte
		_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
		if key := apikey.Mint(abi.Environment(env), &random); key != "" {
			return key
		}
	}
}

// rotateKey makes a successor, which is what the key was but for its lifetime:
// that begins anew.
func (a *api) rotateKey(r *http.Request, in adminapi.Rotation, v *input.Validator) (answer, error) {
	grace := v.Between("grace_seconds", in.GraceSeconds, 0, int64(input.MaxGrace/time.Second), int64(input.DefaultGrace/time.Second))
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	id := r.PathValue("id")
	old, err := a.DB.Key(r.Context(), id)
	if err != nil {
		return answer{}, err
	}
	now := a.DB.Now()
	plaintext := mint(old.Environment)
	successor := store.Key{Hash: sha256.Sum256([]byte(plaintext)), ExpiresAt: now.Add(keyLifetime)}
	key, previous, err := a.DB.RotateKey(r.Context(), id, successor, now.Add(time.Duration(grace)*time.Second))
	return created(adminapi.RotatedKey{Key: a.toKey(key), Plaintext: plaintext, Previous: a.toKey(previous)}, err)
}

// eraseAccount removes an account with all that is kept of it, and answers how many
// records of each kind went.
func (a *api) eraseAccount(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	return ok(slow(func(ctx context.Context) (any, error) {
		// What has begun goes on when the client is gone: half an account is of no use.
		erased, err := a.DB.EraseAccount(context.WithoutCancel(ctx), id)
		return adminapi.ErasedAccount{ID: id, Erased: erased}, err
	}), nil)
}

// bury deletes a lead or an account again that was deleted before, in case a backup or a
// node has brought it back, and keeps it from coming back.
func (a *api) bury(r *http.Request, in adminapi.NewTombstone, v *input.Validator) (answer, error) {
	id, at := v.ID("id", in.ID), v.Time("deleted_at", in.DeletedAt)
	if !strings.HasPrefix(id, "lead_") && !strings.HasPrefix(id, "acc_") {
		v.Fail("id", "invalid", "id must be that of a lead or an account")
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	return created(slow(func(ctx context.Context) (any, error) {
		buried, err := a.DB.Bury(context.WithoutCancel(ctx), store.Tombstone{ID: id, DeletedAt: at})
		return toTombstone(buried), err
	}), nil)
}

func toTombstone(s store.Tombstone) adminapi.Tombstone {
	return adminapi.Tombstone{ID: s.ID, DeletedAt: stamp(s.DeletedAt)}
}

// expiresSoon is the time within which listed keys expire, unless the request names
// another.
const expiresSoon = 30 * 24 * time.Hour

// listExpiringKeys lists the keys of all accounts that expire before a time.
func (a *api) listExpiringKeys(r *http.Request) (answer, error) {
	before := a.DB.Now().Add(expiresSoon)
	if query := r.URL.Query(); query.Has("expires_before") {
		text, v := query.Get("expires_before"), input.Validator{Kind: input.KindParameter}
		before = v.Time("expires_before", &text)
		if err := v.Err(); err != nil {
			return answer{}, err
		}
	}
	return a.listKeys(r, func(p store.Page) ([]store.Key, string, error) { return a.DB.ExpiringKeys(r.Context(), before, p) })
}
