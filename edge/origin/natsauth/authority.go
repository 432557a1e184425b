// Package natsauth holds the keys that sign NATS credentials, and makes from them
// the JWTs of operator, accounts, nodes and origin processes.
package natsauth

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
	"partneredge/store/durable"
)

// MaxPending bounds the bytes that a NATS server holds back for a slow reader.
const MaxPending = 64 << 20

// Files of the keys.
const (
	OperatorSeed = "operator.seed"
	AccountSeed  = "account.seed"
	SystemSeed   = "system.seed"
)

// Authority signs the credentials of everybody who may connect to NATS. It holds
// three nkeys, made on first start and kept in a directory of their own, each
// file 0600:
//
//	operator.seed  signs the accounts; a server trusts its public half
//	account.seed   signs the users: the origin's own, and one for each node
//	system.seed    the system account, which tells a cluster of revocations
//
// A server holds no list of users: it accepts any whose JWT the account has
// signed and not revoked.
type Authority struct {
	operator, account, system nkeys.KeyPair

	// Public halves of the keys.
	OperatorID, AccountID, SystemID string
}

// Open reads the keys from dir, and makes them when dir does not exist. They
// appear whole or not at all: a new directory is written beside and renamed.
func Open(dir string) (*Authority, error) {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := makeSeeds(dir); err != nil {
			// Another origin that shares dir may have been first.
			if _, missing := os.Stat(dir); missing != nil {
				return nil, fmt.Errorf("making the NATS keys: %w", err)
			}
		}
	}
	var a Authority
	for _, k := range []struct {
		file   string
		prefix nkeys.PrefixByte
		pair   *nkeys.KeyPair
		id     *string
	}{
		{OperatorSeed, nkeys.PrefixByteOperator, &a.operator, &a.OperatorID},
		{AccountSeed, nkeys.PrefixByteAccount, &a.account, &a.AccountID},
		{SystemSeed, nkeys.PrefixByteAccount, &a.system, &a.SystemID},
	} {
		path := filepath.Join(dir, k.file)
		text, err := durable.ReadPrivate(path)
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
	defer os.RemoveAll(fresh) // nothing is left of it once renamed
	for file, make := range map[string]func() (nkeys.KeyPair, error){
		OperatorSeed: nkeys.CreateOperator,
		AccountSeed:  nkeys.CreateAccount,
		SystemSeed:   nkeys.CreateAccount,
	} {
		pair, err := make()
		if err != nil {
			return err
		}
		seed, err := pair.Seed()
		if err != nil {
			return err
		}
		if err := durable.WriteFile(filepath.Join(fresh, file), append(seed, '\n'), 0o600); err != nil {
			return err
		}
	}
	return durable.Rename(fresh, dir)
}

// NodeUser makes credentials for a node: the text of a .creds file, and the
// public key that it signs with. The node may publish under its own address, and read
// the changes, what is sent to it, and its own inbox; nothing else. Its address is the
// regional one, or its id alone if its program knows no other. The credentials
// name its region, and a node that stands elsewhere refuses them. No NATS server may
// connect with them.
func (a *Authority) NodeUser(id, region string) (credentials, publicKey string, err error) {
	return mintUser(a.account, id, func(u *jwt.UserClaims) {
		u.Tags.Add(wire.RegionTag + region)
		u.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard, jwt.ConnectionTypeWebsocket)
		u.Sub.Allow.Add(wire.Changes)
		for _, address := range []string{id, wire.RegionalAddress(region, id)} {
			u.Pub.Allow.Add(wire.Prefix + address + ".>")
			u.Sub.Allow.Add(wire.ToNode+address+".>", wire.Inbox(address)+".>")
		}
		u.Resp = nil
		u.Limits.Subs = 64
		u.Limits.Payload = wire.MaxPayload
	})
}

// OriginUser makes credentials for an origin process, made anew at every start.
func (a *Authority) OriginUser() (credentials string, err error) {
	credentials, _, err = mintUser(a.account, "origin", nil)
	return credentials, err
}

// SystemUser makes credentials of the system account, which may update the
// accounts of a cluster.
func (a *Authority) SystemUser() (credentials string, err error) {
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

// SignAccount returns the account of origin and nodes, and its signed JWT.
// revoked holds the public keys of revoked users and since when. They are void for good,
// whenever their JWTs were made: that time is of another clock.
func (a *Authority) SignAccount(revoked map[string]time.Time) (*jwt.AccountClaims, string, error) {
	return a.sign(a.AccountID, "edge", revoked)
}

// SignSystem is SignAccount of the system account, in which the servers of regions have
// users.
func (a *Authority) SignSystem(revoked map[string]time.Time) (*jwt.AccountClaims, string, error) {
	return a.sign(a.SystemID, "system", revoked)
}

// forGood is later than any JWT.
var forGood = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (a *Authority) sign(id, name string, revoked map[string]time.Time) (*jwt.AccountClaims, string, error) {
	claims := jwt.NewAccountClaims(id)
	claims.Name = name
	for key := range revoked {
		claims.RevokeAt(key, forGood)
	}
	text, err := claims.Encode(a.operator)
	return claims, text, err
}
