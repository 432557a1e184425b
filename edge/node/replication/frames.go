package replication

import (
	"partneredge/store"
	"partneredge/wasm/abi"
)

// keyFrame returns what a gate is told of a key. Scopes that this version does not know
// are left out: a gate grants nothing by them.
func keyFrame(k *store.Key) []byte {
	scopes, own := abi.SplitScopes(k.Scopes)
	key := abi.Key{
		ID: k.ID, AccountID: k.AccountID, Environment: abi.Environment(k.Environment),
		Scopes: scopes, Own: own, RateLimit: k.RateLimit,
		Expires: store.Micros(k.ExpiresAt), GraceUntil: store.Micros(k.GraceUntil),
	}
	if !k.RevokedAt.IsZero() {
		key.Revoked = longAgo
	}
	for _, network := range k.Allowlist {
		key.Allowlist = append(key.Allowlist, network.String())
	}
	return key.Append(nil)
}

// longAgo stands for the time at which a key was revoked. A gate compares that
// with the time of its request; the true time would be later than the start of a
// request already under way, or still to come if the origin's clock is ahead.
const longAgo = 1

// revokedFrame returns the frame of the same key, revoked.
func revokedFrame(frame string) string {
	var key abi.Key
	if err := key.Parse([]byte(frame)); err != nil {
		return frame // cannot happen: keyFrame wrote it, and the store checks its sum
	}
	key.Revoked = longAgo
	return string(key.Append(nil))
}

func profileFrame(a *store.Account) []byte {
	p := abi.Profile{
		AgentID: a.Agent.ID, Email: a.Agent.Email, FullName: a.Agent.FullName, Joined: store.Micros(a.Agent.JoinedAt),
		AccountID: a.ID, AccountName: a.Name, Mode: string(a.Mode),
	}
	return p.Append(nil)
}

func insightsFrame(items []store.Insight, history bool) []byte {
	list := abi.Insights{History: history, Items: make([]abi.Insight, len(items))}
	for i, it := range items {
		list.Items[i] = abi.Insight{ID: it.ID, Headline: it.Headline, Detail: it.Detail, Created: store.Micros(it.CreatedAt)}
	}
	return list.Append(nil)
}

func firingsFrame(items []store.Firing, more bool) []byte {
	list := abi.Firings{More: more, Items: make([]abi.Firing, len(items))}
	for i, it := range items {
		list.Items[i] = abi.Firing{ID: it.ID, Name: it.Name, Action: it.Action, Triggered: store.Micros(it.TriggeredAt), Data: it.Data}
	}
	return list.Append(nil)
}

func subscriptionOf(p abi.Principal, s *abi.Subscription) store.Subscription {
	return store.Subscription{
		ID: s.ID, AccountID: p.AccountID, KeyID: p.KeyID, Environment: store.Environment(p.Environment),
		TargetURL: s.Target, Events: s.Events, Description: s.Description, Secret: s.Secret, CreatedAt: store.TimeOf(s.Created),
	}
}
