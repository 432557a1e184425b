package origin

import (
	"testing"
	"time"
)

// TestClockOfTheDatabase: an origin whose own clock is wrong gives and judges the
// times of keys, secrets and heartbeats by the database's, as every other origin does.
func TestClockOfTheDatabase(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			f := newFixture(t, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(off) } })
			near := func(what string, got any, want time.Duration) {
				t.Helper()
				text, _ := got.(string)
				at, err := time.Parse(time.RFC3339, text)
				if err != nil || time.Until(at)-want > time.Minute || want-time.Until(at) > time.Minute {
					t.Errorf("%s is %v, want in %v", what, got, want)
				}
			}
			account := f.account("live")
			keys := "/admin/v1/accounts/" + account + "/keys"
			made := f.must(201, "POST", keys, object{"environment": "live", "scopes": []string{"read:agent"}})["key"].(object)
			near("a key's expiry", made["expires_at"], 365*24*time.Hour)
			for _, soon := range []struct {
				in    time.Duration
				state string
			}{{time.Hour, "active"}, {-time.Hour, "expired"}} {
				key := f.must(201, "POST", keys, object{
					"environment": "live", "scopes": []string{"read:agent"}, "expires_at": time.Now().Add(soon.in).UTC().Format(time.RFC3339),
				})["key"].(object)
				if key["state"] != soon.state {
					t.Errorf("a key that expires in %v is %v, want %s", soon.in, key["state"], soon.state)
				}
			}
			rotated := f.must(201, "POST", "/admin/v1/keys/"+made["id"].(string)+"/rotate", object{"grace_seconds": 3600})
			previous := rotated["previous"].(object)
			near("the end of grace", previous["grace_until"], time.Hour)
			if previous["state"] != "in_grace" {
				t.Errorf("a key in its grace is %v", previous["state"])
			}
			near("the successor's expiry", rotated["key"].(object)["expires_at"], 365*24*time.Hour)

			f.subscribe("whs_c", account, made["id"].(string))
			secret := f.must(201, "POST", "/admin/v1/webhooks/whs_c/rotate-secret", object{"overlap_seconds": 3600})
			near("the end of the overlap", secret["overlap_until"], time.Hour)

			node := f.run("a")
			var seen time.Time
			f.eventually("when the node spoke is written down", func() bool {
				all, err := f.config.DB.LastSeen(t.Context(), []string{node.id})
				if err != nil {
					t.Fatal(err)
				}
				seen = all[node.id]
				return !seen.IsZero()
			})
			near("when the node spoke, by the database", seen.Format(time.RFC3339), 0)
			near("when the node spoke, in the list", f.must(200, "GET", "/admin/v1/nodes", nil)["items"].([]any)[0].(object)["last_seen_at"], 0)
		})
	}
}
