package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"strconv"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

// createKey shows the plaintext, which nobody can show again.
func (a *api) createKey(r *http.Request, in adminapi.NewKey, v *input.Validator) (answer, error) {
	key := store.Key{
		AccountID:   r.PathValue("id"),
		Environment: store.Environment(v.OneOf("environment", in.Environment, string(store.Live), string(store.Test))),
		Scopes:      v.Scopes("scopes", in.Scopes),
		Allowlist:   v.Prefixes("ip_allowlist", in.IPAllowlist),
		RateLimit:   int(v.Between("rate_limit", in.RateLimit, 1, input.MaxRate, adminapi.KeyRate)),
		ExpiresAt:   v.Time("expires_at", in.ExpiresAt), // the past is allowed: an expired key to test with
		Label:       v.Optional("label", in.Label, input.MaxLabel),
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	if key.ExpiresAt.IsZero() {
		key.ExpiresAt = a.DB.Now().Add(adminapi.KeyLifetime)
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
	grace := v.Between("grace_seconds", in.GraceSeconds, 0, int64(input.MaxGrace/time.Second), int64(adminapi.KeyGrace/time.Second))
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
	successor := store.Key{Hash: sha256.Sum256([]byte(plaintext)), ExpiresAt: now.Add(adminapi.KeyLifetime)}
	key, previous, err := a.DB.RotateKey(r.Context(), id, successor, now.Add(time.Duration(grace)*time.Second))
	return created(adminapi.RotatedKey{Key: a.toKey(key), Plaintext: plaintext, Previous: a.toKey(previous)}, err)
}

// revokeKey ends a key. The answer names the subscriptions that were made with it, which
// go on: whoever has a leaked key may have made one to a target of their own.
func (a *api) revokeKey(r *http.Request) (answer, error) {
	key, _, err := a.DB.RevokeKey(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	active, err := a.DB.ActiveSubscriptionsOf(r.Context(), key)
	shown := a.toKey(key)
	for _, s := range active {
		shown.Webhooks = append(shown.Webhooks, a.toWebhook(s))
	}
	return ok(shown, err)
}

// listExpiringKeys lists the keys of all accounts that expire before a time.
func (a *api) listExpiringKeys(r *http.Request) (answer, error) {
	before := a.DB.Now().Add(adminapi.ExpiresSoon)
	if query := r.URL.Query(); query.Has("expires_before") {
		text, v := query.Get("expires_before"), input.Validator{Kind: input.KindParameter}
		before = v.Time("expires_before", &text)
		if err := v.Err(); err != nil {
			return answer{}, err
		}
	}
	return a.listKeys(r, func(p store.Page) ([]store.Key, string, error) { return a.DB.ExpiringKeys(r.Context(), before, p) })
}

// usageMostDays bounds the days of a key's usage: they are kept for as long.
const usageMostDays = 90

// toKeys returns the JSON types of keys, with what each was used for if that can be read.
func (a *api) toKeys(ctx context.Context, keys ...store.Key) []adminapi.Key {
	shown, err := a.withUse(ctx, keys...)
	if err != nil {
		a.Log.Warn("keys are shown without what they were used for", "keys", len(keys), "err", err)
	}
	return shown
}

// withUse returns the JSON types of keys, with what each was used for in the last days; with an
// error they are without that.
func (a *api) withUse(ctx context.Context, keys ...store.Key) ([]adminapi.Key, error) {
	ids, shown := make([]string, len(keys)), make([]adminapi.Key, len(keys))
	for i, k := range keys {
		ids[i], shown[i] = k.ID, a.toKey(k)
	}
	uses, err := a.DB.KeyUses(ctx, ids, a.firstDay(adminapi.UsageDays))
	if err != nil {
		return shown, err
	}
	for i, id := range ids {
		use := uses[id]
		shown[i].Usage = &adminapi.KeyUse{LastUsedAt: stamp(use.LastUsedAt), Days: adminapi.UsageDays, Requests: use.Requests, Limited: use.Limited}
	}
	return shown, nil
}

// firstDay returns the first of some days, of which today is the last.
func (a *api) firstDay(days int) store.Day { return store.DayOf(a.DB.Now()) - store.Day(days) + 1 }

// listKeys answers with a page of keys and what each was used for.
func (a *api) listKeys(r *http.Request, read func(store.Page) ([]store.Key, string, error)) (answer, error) {
	return page(r, func(p store.Page) ([]adminapi.Key, string, error) {
		keys, next, err := read(p)
		if err != nil {
			return nil, "", err
		}
		return a.toKeys(r.Context(), keys...), next, nil
	}, func(k adminapi.Key) adminapi.Key { return k })
}

func (a *api) listAccountKeys(r *http.Request) (answer, error) {
	return a.listKeys(r, func(p store.Page) ([]store.Key, string, error) { return a.DB.Keys(r.Context(), r.PathValue("id"), p) })
}

func (a *api) getKey(r *http.Request) (answer, error) {
	key, err := a.DB.Key(r.Context(), r.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(a.toKeys(r.Context(), key)[0], nil)
}

// listKeyUsage lists the days on which a key was used, the newest first.
func (a *api) listKeyUsage(r *http.Request) (answer, error) {
	days := adminapi.UsageDays
	if text := r.URL.Query().Get("days"); text != "" {
		var err error
		if days, err = strconv.Atoi(text); err != nil || days < 1 || days > usageMostDays {
			return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "days_invalid", Detail: "days must be from 1 to 90"}
		}
	}
	if _, err := a.DB.Key(r.Context(), r.PathValue("id")); err != nil {
		return answer{}, err
	}
	used, err := a.DB.KeyUsage(r.Context(), r.PathValue("id"), a.firstDay(days))
	list := adminapi.List[adminapi.KeyDay]{Items: make([]adminapi.KeyDay, 0, len(used))}
	for _, d := range used {
		list.Items = append(list.Items, adminapi.KeyDay{Day: d.Day.String(), Requests: d.Requests, Limited: d.Limited})
	}
	return ok(list, err)
}
