package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/wire"
)

// TestCredentialsOfAnotherRegion are refused before the origin is asked. Those of an
// older origin, which name no region, are taken.
func TestCredentialsOfAnotherRegion(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	for tag, refused := range map[string]bool{"": false, wire.RegionTag + "test": false, wire.RegionTag + "elsewhere": true} {
		c := config(t, o)
		c.Credentials = filepath.Join(t.TempDir(), "node.creds")
		text := o.user(testNode, func(u *jwt.UserClaims) {
			if tag != "" {
				u.Tags.Add(tag)
			}
			u.Pub.Allow.Add(wire.Prefix + testNode + ".>")
			u.Sub.Allow.Add(wire.Changes, wire.ToNode+testNode+".>", wire.Inbox(testNode)+".>")
		})
		if err := os.WriteFile(c.Credentials, text, 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := Start(t.Context(), c)
		if err == nil {
			if err := n.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if errors.Is(err, link.ErrRegion) != refused || (err != nil) != refused {
			t.Errorf("credentials with the tag %q: %v", tag, err)
		}
	}
}
