// Package dev makes what a development installation has besides its processes: an
// account with keys, the credentials of nodes, and a key that signs releases. All of it
// lies in files that only their owner can read, which is fit for development and for
// nothing else.
package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"aead.dev/minisign"
	"github.com/nats-io/jwt/v2"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
	"partneredge/edge/release"
	"partneredge/store"
	"partneredge/store/durable"
)

// Account is an account to develop against, with the plaintexts of its keys.
type Account struct {
	AccountID string `json:"account_id"`
	Keys      Keys   `json:"keys"`
	// IDs of the keys, to see whether nodes still accept them.
	LiveID string `json:"live_id"`
	TestID string `json:"test_id"`
}

// Keys are the plaintexts of an account's keys.
type Keys struct {
	Live string `json:"live"`
	Test string `json:"test"`
}

// OpenAccount returns the account in the file at path. It makes the account and
// the keys that the origin does not have, or has ended.
func OpenAccount(ctx context.Context, admin *adminapi.Client, path string) (a Account, err error) {
	if err := durable.ReadJSON(path, &a); err != nil && !errors.Is(err, os.ErrNotExist) {
		return a, hint.Add(err, "remove the file to have new keys made")
	}
	before := a
	if err := a.complete(ctx, admin); err != nil {
		return a, fmt.Errorf("making the first account: %w", err)
	}
	if a != before {
		if err := durable.WriteJSON(path, a); err != nil {
			return a, fmt.Errorf("keeping the keys: %w", err)
		}
	}
	return a, nil
}

func (a *Account) complete(ctx context.Context, admin *adminapi.Client) error {
	known, err := a.known(ctx, admin)
	if err != nil {
		return err
	}
	if !known {
		made, err := admin.CreateAccount(ctx, adminapi.NewAccount{
			Name: new("Reyes Realty"), ActivationMode: new(string(store.ModeLive)),
			Agent: &adminapi.NewAgent{Email: new("dana@example.com"), FullName: new("Dana Reyes")},
		})
		if err != nil {
			return err
		}
		*a = Account{AccountID: made.ID}
	}
	accepted, err := AcceptedKeys(ctx, admin, a.AccountID)
	if err != nil {
		return err
	}
	for _, key := range []struct {
		environment   store.Environment
		id, plaintext *string
	}{{store.Live, &a.LiveID, &a.Keys.Live}, {store.Test, &a.TestID, &a.Keys.Test}} {
		if accepted[*key.id] {
			continue
		}
		made, err := admin.CreateKey(ctx, a.AccountID, adminapi.NewKey{
			Environment: new(string(key.environment)), Scopes: adminapi.Scopes(), Label: new("edge dev"),
		})
		if err != nil {
			return err
		}
		*key.id, *key.plaintext = made.Key.ID, made.Plaintext
	}
	return nil
}

// known reports whether the origin has the account.
func (a *Account) known(ctx context.Context, admin *adminapi.Client) (bool, error) {
	if a.AccountID == "" {
		return false, nil
	}
	err := admin.Call(ctx, http.MethodGet, "/accounts/"+url.PathEscape(a.AccountID), nil, nil)
	if refused, ok := errors.AsType[*adminapi.Error](err); ok && refused.Status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// AcceptedKeys returns the ids of the account's keys that nodes accept.
func AcceptedKeys(ctx context.Context, admin *adminapi.Client, account string) (map[string]bool, error) {
	accepted := map[string]bool{}
	for k, err := range adminapi.All[adminapi.Key](ctx, admin, "/accounts/"+url.PathEscape(account)+"/keys", nil) {
		if err != nil {
			return nil, err
		}
		accepted[k.ID] = k.State == "active" || k.State == "in_grace"
	}
	return accepted, nil
}

// Enrol returns the file with a node's credentials in dir. It enrols the node when there is
// none yet, or when the origin does not have its node, or has revoked it.
func Enrol(ctx context.Context, admin *adminapi.Client, dir, region string) (file string, err error) {
	file = filepath.Join(dir, "node.creds")
	if enrolled, err := isEnrolled(ctx, admin, file); enrolled || err != nil {
		return file, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	made, err := admin.EnrolNode(ctx, "dev-"+region, region)
	if err != nil {
		return "", fmt.Errorf("enrolling the node: %w", err)
	}
	if err := durable.WriteFile(file, []byte(made.Credentials), 0o600); err != nil {
		return "", fmt.Errorf("keeping the node's credentials: %w", err)
	}
	return file, nil
}

// isEnrolled reports whether the origin has the node that the credentials in file name, and
// has not revoked it. An origin whose keys are those that signed the credentials lets the
// node connect, but answers it nothing, if its database is another.
func isEnrolled(ctx context.Context, admin *adminapi.Client, file string) (bool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the node's credentials: %w", err)
	}
	token, _ := jwt.ParseDecoratedJWT(text) // "" if there is none, which is no claims
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return false, nil // damaged
	}
	for n, err := range adminapi.All[adminapi.Node](ctx, admin, "/nodes", nil) {
		if err != nil {
			return false, fmt.Errorf("looking for the node: %w", err)
		}
		if n.ID == claims.Name {
			return n.RevokedAt.IsZero(), nil
		}
	}
	return false, nil
}

// ReleaseKeys returns the keys of releases that the nodes of an installation trust: its
// own in release.key and release.pub of dir, which the first call makes without a
// password.
func ReleaseKeys(dir string) ([]minisign.PublicKey, error) {
	public := filepath.Join(dir, "release.pub")
	keys, err := release.ReadKeys(public)
	if !errors.Is(err, os.ErrNotExist) {
		return keys, hint.Add(err, "remove release.key and release.pub to have new ones made")
	}
	key, err := release.MakeKeys(filepath.Join(dir, "release.key"), public, "")
	if err != nil {
		return nil, hint.Add(fmt.Errorf("making the key of releases: %w", err), "remove release.key to have a new one made")
	}
	return []minisign.PublicKey{key}, nil
}
