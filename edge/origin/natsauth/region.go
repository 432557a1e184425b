package natsauth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// verbs of what nodes send to the origin.
var verbs = []string{
	wire.VerbKey, wire.VerbView, wire.VerbChanges, wire.VerbLeads, wire.VerbSubscribe, wire.VerbRevoke,
	wire.VerbBlob, wire.VerbSignatures, wire.VerbSpend, wire.VerbStatus, wire.VerbLockouts,
}

// WriteRegion writes to dir what the NATS server of a region needs to be a leaf of the
// one at url: RegionFile and two files of credentials, which are kept where they exist.
func (a *Authority) WriteRegion(dir, url string, revoked map[string]time.Time) error {
	operator, err := a.signOperator()
	if err != nil {
		return err
	}
	_, account, err := a.SignAccount(revoked)
	if err != nil {
		return err
	}
	system, err := a.SignSystem()
	if err != nil {
		return err
	}
	user, systemUser := filepath.Join(dir, regionUser), filepath.Join(dir, regionSystemUser)
	if err := errors.Join(a.keepUser(user, a.regionUser), a.keepUser(systemUser, a.regionSystemUser)); err != nil {
		return err
	}
	text := fmt.Sprintf(regionForm, operator, a.SystemID, a.SystemID, system, a.AccountID, account,
		url, a.AccountID, regionUser, url, a.SystemID, regionSystemUser, wire.MaxPayload, MaxPending)
	return durable.WriteFile(filepath.Join(dir, RegionFile), []byte(text), 0o644)
}

// keepUser writes credentials to a file that does not exist yet.
func (a *Authority) keepUser(path string, mint func() (string, error)) error {
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	credentials, err := mint()
	if err != nil {
		return err
	}
	return durable.WriteFile(path, []byte(credentials), 0o600)
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
		for _, verb := range verbs {
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
