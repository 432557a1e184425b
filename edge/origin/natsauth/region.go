package natsauth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/nats-io/jwt/v2"

	"partneredge/edge/wire"
	"partneredge/store/durable"
)

// Files of a region's NATS server, a leaf of the origin's.
const (
	RegionFile       = "region.conf"         // included by the server
	regionUser       = "region.creds"        // its user in the account of origin and nodes
	regionSystemUser = "region-system.creds" // its user in the system account
)

// regionForm is the content of RegionFile. The nodes of the region connect to its server
// with the credentials that the origin gave them, which it judges by the account's JWT;
// the second connection is how a new one, with the nodes revoked since, comes to it.
const regionForm = `# Made by edge origin. The NATS server of each region includes it.
operator: %s
system_account: %s
resolver: { type: full, dir: "./jwt" }
resolver_preload: {
	%s: %s
	%s: %s
}
leafnodes: {
	reconnect: "1s"
	remotes: [
		{ urls: [%q], account: %s, credentials: %q }
		{ urls: [%q], account: %s, credentials: %q }
	]
}
max_payload: %d
max_pending: %d
ping_interval: "20s"
write_deadline: "10s"
`

// WriteRegion writes to dir what the NATS server of a region needs to be a leaf of the
// one at url: RegionFile and two files of credentials. It keeps credentials that exist
// and have the permissions of this program, and returns the files of those that it made
// anew in the place of others.
func (a *Authority) WriteRegion(dir, url string, revoked map[string]time.Time) (renewed []string, err error) {
	operator, err := a.signOperator()
	if err != nil {
		return nil, err
	}
	_, account, err := a.SignAccount(revoked)
	if err != nil {
		return nil, err
	}
	system, err := a.SignSystem()
	if err != nil {
		return nil, err
	}
	for file, mint := range map[string]func() (string, error){regionUser: a.regionUser, regionSystemUser: a.regionSystemUser} {
		path := filepath.Join(dir, file)
		again, err := keepUser(path, mint)
		if err != nil {
			return nil, err
		}
		if again {
			renewed = append(renewed, path)
		}
	}
	text := fmt.Sprintf(regionForm, operator, a.SystemID, a.SystemID, system, a.AccountID, account,
		url, a.AccountID, regionUser, url, a.SystemID, regionSystemUser, wire.MaxPayload, MaxPending)
	return renewed, durable.WriteFile(filepath.Join(dir, RegionFile), []byte(text), 0o644)
}

// keepUser writes credentials to a file, unless it holds some that may do the same. It
// reports whether it replaced others.
func keepUser(path string, mint func() (string, error)) (renewed bool, err error) {
	credentials, err := mint()
	if err != nil {
		return false, err
	}
	kept, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err == nil && sameUser(string(kept), credentials) {
		return false, nil
	}
	return err == nil, durable.WriteFile(path, []byte(credentials), 0o600)
}

// sameUser reports whether kept credentials are signed by the account that signed the
// fresh ones and have the same permissions.
func sameUser(kept, fresh string) bool {
	a, err := userClaims(kept)
	if err != nil {
		return false // damaged
	}
	b, err := userClaims(fresh)
	return err == nil && a.Issuer == b.Issuer && reflect.DeepEqual(a.UserPermissionLimits, b.UserPermissionLimits)
}

func userClaims(credentials string) (*jwt.UserClaims, error) {
	token, err := jwt.ParseDecoratedJWT([]byte(credentials))
	if err != nil {
		return nil, err
	}
	return jwt.DecodeUserClaims(token)
}

// inboxes are the subjects of answers, such as _INBOX_node_01….nuid.1. No pattern names
// the inboxes of one region's nodes alone.
const inboxes = "*.*.*"

// regionUser makes credentials for the NATS servers of regions. They pass on what their
// nodes say, never what the origin says to others, and do not hear what other regions'
// nodes ask.
func (a *Authority) regionUser() (credentials string, err error) {
	credentials, _, err = mintUser(a.account, "region", func(u *jwt.UserClaims) {
		u.Sub.Allow.Add(wire.Changes, wire.ToNode+">", inboxes)
		for _, verb := range wire.NodeVerbs() {
			u.Pub.Allow.Add(wire.AnyNode+verb, wire.AnyNode+verb+".>")
		}
	})
	return credentials, err
}

// regionSystemUser makes credentials with which a region's server hears of the account's
// new JWTs, and says nothing.
func (a *Authority) regionSystemUser() (credentials string, err error) {
	credentials, _, err = mintUser(a.system, "region", func(u *jwt.UserClaims) {
		u.Sub.Allow.Add(ClaimsUpdate)
		u.Pub.Allow.Add("_INBOX.>", "_R_.>") // answers to that
	})
	return credentials, err
}

// ClaimsUpdate is the subject at which NATS servers take an account's new JWT.
const ClaimsUpdate = "$SYS.REQ.CLAIMS.UPDATE"
