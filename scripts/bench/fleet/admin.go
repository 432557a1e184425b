// Package fleet runs origins and nodes for benches, in the process or as processes
// of their own.
package fleet

import (
	"context"
	"os"
	"path/filepath"

	"partneredge/edge/adminapi"
)

// Admin calls the admin API.
type Admin struct{ adminapi.Client }

// Account makes a live account.
func (a *Admin) Account(ctx context.Context) (id string, err error) {
	made, err := a.CreateAccount(ctx, adminapi.NewAccount{
		Name: new("Bench"), ActivationMode: new("live"), Agent: &adminapi.NewAgent{Email: new("bench@example.com"), FullName: new("Bench")},
	})
	return made.ID, err
}

// Key makes a live key with every scope and a limit a minute.
func (a *Admin) Key(ctx context.Context, account string, limit int64) (id, plaintext string, err error) {
	made, err := a.CreateKey(ctx, account, adminapi.NewKey{Environment: new("live"), RateLimit: &limit, Scopes: adminapi.Scopes()})
	return made.Key.ID, made.Plaintext, err
}

// Enrol makes a node and writes its credentials to a file in dir.
func (a *Admin) Enrol(ctx context.Context, dir, name string) (file string, err error) {
	made, err := a.EnrolNode(ctx, name, name)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "node.creds")
	return file, os.WriteFile(file, []byte(made.Credentials), 0o600)
}
