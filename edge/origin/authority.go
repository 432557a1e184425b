package origin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"partneredge/edge/wire"
	"partneredge/store"
)

// authority says who may connect to NATS. It holds three nkeys, made on first
// start and kept in a folder of their own, each file 0600:
//
//	operator.seed  signs the accounts; a server trusts its public half
//	account.seed   signs the users: the origin's own, and one a node
//	system.seed    the system account, with which a cluster is told of revocations
//
// A server holds no list of users: it accepts any whose JWT the account has
// signed and not revoked.
type authority struct {
	operator, account, system nkeys.KeyPair

	operatorID, accountID, systemID string // public halves
}

// openAuthority reads the keys from dir, and makes them when dir is not there.
// They appear whole or not at all: a new folder is written beside and renamed.
func openAuthority(dir string) (*authority, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := makeSeeds(dir); err != nil {
			// Another origin that shares dir may have been first.
			if _, missing := os.Stat(dir); missing != nil {
				return nil, fmt.Errorf("making the NATS keys: %w", err)
			}
		}
	}
	var a authority
	for _, k := range []struct {
		file   string
		prefix nkeys.PrefixByte
		pair   *nkeys.KeyPair
		id     *string
	}{
		{"operator.seed", nkeys.PrefixByteOperator, &a.operator, &a.operatorID},
		{"account.seed", nkeys.PrefixByteAccount, &a.account, &a.accountID},
		{"system.seed", nkeys.PrefixByteAccount, &a.system, &a.systemID},
	} {
		path := filepath.Join(dir, k.file)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the NATS keys: %w", err)
		}
		pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(text))))
		if err != nil {
			return nil, fmt.Errorf("reading the NATS keys: %s: %w", path, err)
		}
		id, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("reading the NATS keys: %s: %w", path, err)
		}
		if nkeys.Prefix(id) != k.prefix {
			return nil, fmt.Errorf("reading the NATS keys: %s holds a key of another kind", path)
		}
		*k.pair, *k.id = pair, id
	}
	return &a, nil
}

func makeSeeds(dir string) error {
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".nats-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // nothing is there any more once renamed
	for file, make := range map[string]func() (nkeys.KeyPair, error){
		"operator.seed": nkeys.CreateOperator,
		"account.seed":  nkeys.CreateAccount,
		"system.seed":   nkeys.CreateAccount,
	} {
		pair, err := make()
		if err != nil {
			return err
		}
		seed, err := pair.Seed()
		if err != nil {
			return err
		}
		if err := writeSecret(filepath.Join(fresh, file), append(seed, '\n')); err != nil {
			return err
		}
	}
	return os.Rename(fresh, dir)
}

// writeSecret writes a new file that only its owner can read, and has it on
// disk when it returns.
func writeSecret(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// systemJWT is the system account, signed.
func (a *authority) systemJWT() (string, error) {
	claims := jwt.NewAccountClaims(a.systemID)
	claims.Name = "system"
	return claims.Encode(a.operator)
}

// accountClaims is the account of origin and nodes, with the users it has
// revoked by public key and since when. A user's JWT from before that is void.
func (a *authority) accountClaims(revoked map[string]time.Time) *jwt.AccountClaims {
	claims := jwt.NewAccountClaims(a.accountID)
	claims.Name = "edge"
	for key, at := range revoked {
		claims.RevokeAt(key, at)
	}
	return claims
}

// operatorJWT is what a NATS cluster of one's own names as its operator.
func (a *authority) operatorJWT() (string, error) {
	claims := jwt.NewOperatorClaims(a.operatorID)
	claims.Name = "edge"
	claims.SystemAccount = a.systemID
	return claims.Encode(a.operator)
}

// writeJWTs writes to dir what the configuration of a NATS cluster names:
// operator.jwt, and to be preloaded by its resolver system.jwt and account.jwt.
func (a *authority) writeJWTs(dir string, revoked map[string]time.Time) error {
	operator, err := a.operatorJWT()
	if err != nil {
		return err
	}
	account, err := a.accountClaims(revoked).Encode(a.operator)
	if err != nil {
		return err
	}
	system, err := a.systemJWT()
	if err != nil {
		return err
	}
	for file, text := range map[string]string{"operator.jwt": operator, "account.jwt": account, "system.jwt": system} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// clusterConfig is what every server of a NATS cluster includes: whom it trusts,
// how it resolves accounts and hears of revocations, and the limits that the
// embedded server has. The folder of its resolver is below where the server was
// started.
func (a *authority) clusterConfig(revoked map[string]time.Time) (string, error) {
	operator, err := a.operatorJWT()
	if err != nil {
		return "", err
	}
	account, err := a.accountClaims(revoked).Encode(a.operator)
	if err != nil {
		return "", err
	}
	system, err := a.systemJWT()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`# Made by edge origin. Each server of the cluster includes it.
operator: %s
system_account: %s
resolver: { type: full, dir: "./jwt" }
resolver_preload: {
	%s: %s
	%s: %s
}
max_payload: %d
max_pending: %d
ping_interval: "20s"
write_deadline: "10s"
`, operator, a.systemID, a.systemID, system, a.accountID, account, wire.MaxPayload, maxPending), nil
}

// writeClusterConfig writes clusterConfig to path: wholly, or not at all.
func (a *authority) writeClusterConfig(path string, revoked map[string]time.Time) error {
	text, err := a.clusterConfig(revoked)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".cluster-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // nothing is there any more once renamed
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// nodeUser makes credentials for a node: the text of a .creds file, and the
// public key that it signs with. The node may publish under its own id, and read
// the changes, what is sent to it, and its own inbox; nothing else.
func (a *authority) nodeUser(id string) (credentials, publicKey string, err error) {
	return mintUser(a.account, id, func(u *jwt.UserClaims) {
		u.Pub.Allow.Add(wire.Prefix + id + ".>")
		u.Sub.Allow.Add(wire.Changes, wire.ToNode+id+".>", wire.Inbox(id)+".>")
		u.Resp = nil
		u.Limits.Subs = 64
		u.Limits.Payload = wire.MaxPayload
	})
}

// originUser makes credentials for an origin process, made anew at every start.
func (a *authority) originUser() (credentials string, err error) {
	credentials, _, err = mintUser(a.account, "origin", nil)
	return credentials, err
}

// systemUser makes credentials with which a cluster is told of revocations.
func (a *authority) systemUser() (credentials string, err error) {
	credentials, _, err = mintUser(a.system, "origin", nil)
	return credentials, err
}

func mintUser(account nkeys.KeyPair, name string, permit func(*jwt.UserClaims)) (credentials, publicKey string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("minting NATS credentials: %w", err)
		}
	}()
	user, err := nkeys.CreateUser()
	if err != nil {
		return "", "", err
	}
	publicKey, err = user.PublicKey()
	if err != nil {
		return "", "", err
	}
	seed, err := user.Seed()
	if err != nil {
		return "", "", err
	}
	claims := jwt.NewUserClaims(publicKey)
	claims.Name = name
	if permit != nil {
		permit(claims)
	}
	token, err := claims.Encode(account)
	if err != nil {
		return "", "", err
	}
	text, err := jwt.FormatUserConfig(token, seed)
	return string(text), publicKey, err
}

// revocations are the public keys of the revoked nodes, and since when.
func revocations(nodes map[string]store.Node) map[string]time.Time {
	revoked := make(map[string]time.Time)
	for _, n := range nodes {
		if !n.RevokedAt.IsZero() && n.PublicKey != "" {
			revoked[n.PublicKey] = n.RevokedAt
		}
	}
	return revoked
}
