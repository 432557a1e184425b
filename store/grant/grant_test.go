package grant

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"partneredge/store"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func someKey() store.Key {
	return store.Key{
		ID: "key_1", AccountID: "acc_1", Hash: [32]byte{1, 2}, Environment: store.Live,
		Scopes: []string{store.ScopeWriteLeads}, CreatedAt: now.Add(-1000 * time.Hour), ExpiresAt: now.Add(1000 * time.Hour),
	}
}

func claimOf(k store.Key) Claim {
	return Claim{KeyHash: k.Hash[:], KeyID: k.ID, AccountID: k.AccountID, Environment: k.Environment, Scope: store.ScopeWriteLeads}
}

func refusal(err error) Refusal {
	r, _ := ReasonOf(err)
	return r
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		key   func(*store.Key)
		claim func(*Claim)
		want  Refusal
	}{
		"granted":                  {},
		"any key and environment":  {claim: func(c *Claim) { c.KeyID, c.Environment = "", "" }},
		"no hash":                  {claim: func(c *Claim) { c.KeyHash = nil }, want: NoHash},
		"another hash":             {claim: func(c *Claim) { c.KeyHash = make([]byte, 32) }, want: OtherKey},
		"a part of the hash":       {claim: func(c *Claim) { c.KeyHash = c.KeyHash[:31] }, want: OtherKey},
		"another id":               {claim: func(c *Claim) { c.KeyID = "key_2" }, want: OtherKey},
		"another account":          {claim: func(c *Claim) { c.AccountID = "acc_2" }, want: OtherAccount},
		"no account":               {claim: func(c *Claim) { c.AccountID = "" }, want: OtherAccount},
		"another environment":      {claim: func(c *Claim) { c.Environment = store.Test }, want: OtherEnvironment},
		"another scope":            {claim: func(c *Claim) { c.Scope = store.ScopeReadAgent }, want: NoScope},
		"revoked":                  {key: func(k *store.Key) { k.RevokedAt = now.Add(-time.Second) }, want: KeyEnded},
		"revoked by a clock ahead": {key: func(k *store.Key) { k.RevokedAt = now.Add(time.Second) }, want: KeyEnded},
		"in grace":                 {key: func(k *store.Key) { k.GraceUntil = now.Add(time.Hour) }},
		"past grace, clocks apart": {key: func(k *store.Key) { k.GraceUntil = now.Add(time.Second - Leeway) }},
		"past grace":               {key: func(k *store.Key) { k.GraceUntil = now.Add(-Leeway) }, want: KeyEnded},
		"expired":                  {key: func(k *store.Key) { k.ExpiresAt = now.Add(-Leeway) }, want: KeyEnded},
	} {
		key := someKey()
		if c.key != nil {
			c.key(&key)
		}
		claim := claimOf(key)
		if c.claim != nil {
			c.claim(&claim)
		}
		if got := refusal(Judge(key, claim, now)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestJudgeLead(t *testing.T) {
	revoked := func(ago time.Duration) func(*store.Key) {
		return func(k *store.Key) { k.RevokedAt = now.Add(-ago) }
	}
	for name, c := range map[string]struct {
		key  func(*store.Key)
		ago  time.Duration
		want Refusal
	}{
		"accepted now":                          {},
		"accepted 900 hours ago":                {ago: 900 * time.Hour},
		"by a clock a day ahead":                {ago: -Wrong},
		"by a clock further ahead":              {ago: -Wrong - time.Second, want: WrongTime},
		"before the key was made, clock behind": {ago: 1000*time.Hour + Wrong},
		"long before the key was made":          {ago: 1001*time.Hour + Wrong, want: WrongTime},
		"revoked since":                         {key: revoked(time.Hour), ago: 2 * time.Hour},
		"revoked a moment before":               {key: revoked(time.Hour), ago: time.Hour - Leeway},
		"revoked before":                        {key: revoked(time.Hour), ago: time.Hour - Leeway - time.Second, want: KeyEnded},
		"revoked a week ago":                    {key: revoked(Late), ago: Late + time.Hour},
		"revoked more than a week ago":          {key: revoked(Late + time.Second), ago: Late + time.Hour, want: KeyEnded},
		"expired since":                         {key: func(k *store.Key) { k.ExpiresAt = now.Add(-time.Hour) }, ago: 2 * time.Hour},
		"past its grace since":                  {key: func(k *store.Key) { k.GraceUntil = now.Add(-time.Hour) }, ago: 2 * time.Hour},
		"past its grace before":                 {key: func(k *store.Key) { k.GraceUntil = now.Add(-time.Hour) }, ago: time.Minute, want: KeyEnded},
	} {
		key := someKey()
		if c.key != nil {
			c.key(&key)
		}
		if got := refusal(JudgeLead(key, claimOf(key), now.Add(-c.ago), now)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestLeadOutlivesItsKey: a lead that is accepted while its key is valid is taken,
// whenever within a week the key then ends and the lead arrives.
func TestLeadOutlivesItsKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		key := someKey()
		accepted := key.CreatedAt.Add(d("accepted", 900*time.Hour))
		ends := accepted.Add(d("valid for", 90*time.Hour))
		switch rapid.IntRange(0, 2).Draw(t, "end") {
		case 0:
			key.RevokedAt = ends
		case 1:
			key.GraceUntil = ends
		default:
			key.ExpiresAt = ends
		}
		if err := JudgeLead(key, claimOf(key), accepted, ends.Add(d("arrives", Late))); err != nil {
			t.Fatal(err)
		}
	})
}
