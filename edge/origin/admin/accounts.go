package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
	"partneredge/store/central"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

func (a *api) createAccount(r *http.Request) (answer, error) {
	var in adminapi.NewAccount
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_account"}
	account := store.Account{Name: c.text("name", in.Name, maxName), Mode: store.ModeSetup}
	if in.ActivationMode != nil {
		account.Mode = store.Mode(c.oneOf("activation_mode", in.ActivationMode, string(store.ModeLive), string(store.ModeSetup)))
	}
	if in.Agent == nil {
		c.fail("agent", "required", "agent must have email and full_name")
	} else {
		account.Agent.Email = c.email("agent.email", in.Agent.Email)
		account.Agent.FullName = c.text("agent.full_name", in.Agent.FullName, maxName)
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	account, err := a.DB.CreateAccount(r.Context(), account)
	if err != nil {
		return answer{}, err
	}
	return created(toAccount(account))
}

func (a *api) listAccounts(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Account, string, error) {
		return a.DB.Accounts(r.Context(), p)
	}, toAccount)
}

func (a *api) getAccount(r *http.Request) (answer, error) {
	account, err := a.DB.Account(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(toAccount(account))
}

// patchAccount changes what is named and leaves the rest as it is.
func (a *api) patchAccount(r *http.Request) (answer, error) {
	var in adminapi.AccountPatch
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_account"}
	patch := central.AccountPatch{Name: in.Name}
	if in.Name != nil {
		c.text("name", in.Name, maxName)
	}
	if in.ActivationMode != nil {
		mode := store.Mode(c.oneOf("activation_mode", in.ActivationMode, string(store.ModeLive), string(store.ModeSetup)))
		patch.Mode = &mode
	}
	if in.Agent != nil {
		patch.Email, patch.FullName = in.Agent.Email, in.Agent.FullName
		if patch.Email != nil {
			c.email("agent.email", patch.Email)
		}
		if patch.FullName != nil {
			c.text("agent.full_name", patch.FullName, maxName)
		}
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	account, _, err := a.DB.UpdateAccount(r.Context(), r.PathValue("id"), patch)
	if err != nil {
		return answer{}, err
	}
	return ok(toAccount(account))
}

// keyLifetime is the default lifetime of a key.
const keyLifetime = 365 * 24 * time.Hour

// defaultRate of a key, requests a minute.
const defaultRate = 100

// createKey shows the plaintext, which nobody can show again.
func (a *api) createKey(r *http.Request) (answer, error) {
	var in adminapi.NewKey
	if err := decode(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_key"}
	key := store.Key{
		AccountID:   r.PathValue("id"),
		Environment: store.Environment(c.oneOf("environment", in.Environment, string(store.Live), string(store.Test))),
		Scopes: c.each("scopes", in.Scopes, store.ScopeReadAgent, store.ScopeReadCoaching, store.ScopeReadSentinels,
			store.ScopeWriteWebhooks, store.ScopeWriteLeads),
		Allowlist: c.prefixes("ip_allowlist", in.IPAllowlist),
		RateLimit: int(c.between("rate_limit", in.RateLimit, 1, maxRate, defaultRate)),
		ExpiresAt: c.time("expires_at", in.ExpiresAt), // the past is allowed: an expired key to test with
		Label:     c.optional("label", in.Label, maxLabel),
	}
	if err := c.err(); err != nil {
		return answer{}, err
	}
	if key.ExpiresAt.IsZero() {
		key.ExpiresAt = a.Now().Add(keyLifetime)
	}
	plaintext := mint(key.Environment)
	key.Hash = sha256.Sum256([]byte(plaintext))
	key, err := a.DB.CreateKey(r.Context(), key)
	if err != nil {
		return answer{}, err
	}
	return created(adminapi.MintedKey{Key: toKey(key, a.Now()), Plaintext: plaintext})
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

func (a *api) listKeys(r *http.Request) (answer, error) {
	return list(r, func(p store.Page) ([]store.Key, string, error) {
		return a.DB.Keys(r.Context(), r.PathValue("id"), p)
	}, func(k store.Key) adminapi.Key { return toKey(k, a.Now()) })
}

// rotateKey makes a successor, which is what the key was but for its lifetime:
// that begins anew.
func (a *api) rotateKey(r *http.Request) (answer, error) {
	var in adminapi.Rotation
	if err := decodeOptional(r, &in); err != nil {
		return answer{}, err
	}
	c := checks{kind: "invalid_rotation"}
	grace := c.between("grace_seconds", in.GraceSeconds, 0, int64(maxGrace/time.Second), int64(defaultGrace/time.Second))
	if err := c.err(); err != nil {
		return answer{}, err
	}
	id := r.PathValue("id")
	old, err := a.DB.Key(r.Context(), id)
	if err != nil {
		return answer{}, err
	}
	now := a.Now()
	plaintext := mint(old.Environment)
	successor := store.Key{Hash: sha256.Sum256([]byte(plaintext)), ExpiresAt: now.Add(keyLifetime)}
	key, previous, err := a.DB.RotateKey(r.Context(), id, successor, now.Add(time.Duration(grace)*time.Second))
	if err != nil {
		return answer{}, err
	}
	return created(adminapi.RotatedKey{Key: toKey(key, a.Now()), Plaintext: plaintext, Previous: toKey(previous, a.Now())})
}

func (a *api) revokeKey(r *http.Request) (answer, error) {
	if err := decodeOptional(r, &struct{}{}); err != nil {
		return answer{}, err
	}
	key, _, err := a.DB.RevokeKey(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(toKey(key, a.Now()))
}
