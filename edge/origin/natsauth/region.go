package natsauth

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/nats-io/jwt/v2"

	"partneredge/edge/wire"
	"partneredge/store/durable"
)

// Files of a region's NATS server, a leaf of the origin's, beside the region.conf that its
// configuration includes.
const (
	RegionUser       = "region.creds"        // its user in the account of origin and nodes
	RegionSystemUser = "region-system.creds" // its user in the system account
)

// RegionServer holds the configuration and the credentials of a region's NATS server, and
// the public keys that its two users sign with.
type RegionServer struct {
	Config, Credentials, SystemCredentials string
	PublicKey, SystemKey                   string
}

// Leaf says to which server that of a region is to be a leaf.
type Leaf struct {
	URL string
	CA  string // file of who signs its certificate; "": whom the region's system trusts
}

// RegionServer makes users for the NATS server of a region, to be a leaf of another.
// They may publish under the regional addresses of the region's nodes, and subscribe to
// what is sent to those and to the changes: to nothing of other regions, and not publish in
// the origin's name.
func (a *Authority) RegionServer(id, region string, of Leaf, revoked map[string]time.Time) (r RegionServer, err error) {
	c, err := a.newConf("The NATS server of the region", revoked)
	if err != nil {
		return r, err
	}
	r.Credentials, r.PublicKey, err = mintUser(a.account, id, func(u *jwt.UserClaims) {
		token := wire.RegionToken(region)
		u.Tags.Add(wire.RegionTag + region)
		u.Pub.Allow.Add(wire.Prefix + token + ".>")
		u.Sub.Allow.Add(wire.Changes, wire.ToNode+token+".>", wire.Inbox(token)+".>")
	})
	if err != nil {
		return r, err
	}
	if r.SystemCredentials, r.SystemKey, err = a.regionSystemUser(id); err != nil {
		return r, err
	}
	c.Name = id
	c.Remotes = []remote{{of.URL, a.AccountID, RegionUser, of.CA}, {of.URL, a.SystemID, RegionSystemUser, of.CA}}
	r.Config = c.text()
	return r, nil
}

// RenewShared makes the credentials in dir anew that an earlier program made for the
// servers of all regions together, where these may do less than nodes need now. It
// returns the files that it wrote.
func (a *Authority) RenewShared(dir string) (renewed []string, err error) {
	system := func() (string, string, error) { return a.regionSystemUser("region") }
	for file, mint := range map[string]func() (string, string, error){RegionUser: a.sharedUser, RegionSystemUser: system} {
		path := filepath.Join(dir, file)
		again, err := renewUser(path, mint)
		if err != nil {
			return nil, err
		}
		if again {
			renewed = append(renewed, path)
		}
	}
	return renewed, nil
}

// SharedKeys returns the public keys of the shared credentials in dir, "" where there are
// none.
func SharedKeys(dir string) (public, system string) {
	for file, key := range map[string]*string{RegionUser: &public, RegionSystemUser: &system} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
			if claims, err := userClaims(string(text)); err == nil {
				*key = claims.Subject
			}
		}
	}
	return public, system
}

// renewUser replaces the credentials in a file, if there are any and they may do other
// than fresh ones. It reports whether it did.
func renewUser(path string, mint func() (string, string, error)) (renewed bool, err error) {
	kept, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	credentials, _, err := mint()
	if err != nil || sameUser(string(kept), credentials) {
		return false, err
	}
	return true, durable.WriteFile(path, []byte(credentials), 0o600)
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
// those of one region's nodes whose addresses do not name it.
const inboxes = "*.*.*"

// sharedUser makes credentials for the NATS servers of all regions, for those that have
// not been enrolled one by one. They pass on what any node says whose address is its id,
// never what the origin says to others, and do not hear what other regions' nodes ask.
func (a *Authority) sharedUser() (credentials, publicKey string, err error) {
	return mintUser(a.account, "region", func(u *jwt.UserClaims) {
		u.Sub.Allow.Add(wire.Changes, wire.ToNode+">", inboxes)
		for _, verb := range wire.NodeVerbs() {
			u.Pub.Allow.Add(wire.AnyNode+verb, wire.AnyNode+verb+".>")
		}
	})
}

// regionSystemUser makes credentials with which a region's server hears of the account's
// new JWTs, and says nothing.
func (a *Authority) regionSystemUser(name string) (credentials, publicKey string, err error) {
	return mintUser(a.system, name, func(u *jwt.UserClaims) {
		u.Sub.Allow.Add(ClaimsUpdate)
		u.Pub.Allow.Add("_INBOX.>", "_R_.>") // answers to that
	})
}

// ClaimsUpdate is the subject at which NATS servers take an account's new JWT.
const ClaimsUpdate = "$SYS.REQ.CLAIMS.UPDATE"
