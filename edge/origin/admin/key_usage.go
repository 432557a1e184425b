package admin

import (
	"context"
	"net/http"
	"strconv"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
)

// Days of the usage of keys.
const (
	usageDays     = 30 // unless the request names others
	usageMostDays = 90 // for as long as they are kept
)

// toKeys returns the JSON types of keys, with what each was used for if that can be read.
func (a *api) toKeys(ctx context.Context, keys ...store.Key) []adminapi.Key {
	shown, err := a.withUse(ctx, keys...)
	if err == nil {
		return shown
	}
	a.Log.Warn("keys are shown without what they were used for", "keys", len(keys), "err", err)
	shown = make([]adminapi.Key, len(keys))
	for i, k := range keys {
		shown[i] = a.toKey(k)
	}
	return shown
}

// withUse adds to keys what each was used for in the last days.
func (a *api) withUse(ctx context.Context, keys ...store.Key) ([]adminapi.Key, error) {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	uses, err := a.DB.KeyUses(ctx, ids, a.firstDay(usageDays))
	if err != nil {
		return nil, err
	}
	shown := make([]adminapi.Key, len(keys))
	for i, k := range keys {
		use := uses[k.ID]
		shown[i] = a.toKey(k)
		shown[i].Usage = &adminapi.KeyUse{LastUsedAt: stamp(use.LastUsedAt), Days: usageDays, Requests: use.Requests, Limited: use.Limited}
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
	days := usageDays
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
