package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"partneredge/store"
)

// tenant is an account to develop against, with its keys in the clear. It is
// kept in a file that only its owner can read, which is fit for development and
// for nothing else.
type tenant struct {
	AccountID string  `json:"account_id"`
	Keys      devKeys `json:"keys"`
	// IDs of the keys, to see whether they are still good.
	LiveID string `json:"live_id"`
	TestID string `json:"test_id"`
}

type devKeys struct {
	Live string `json:"live"`
	Test string `json:"test"`
}

// openTenant returns the tenant that the file at path remembers. What the origin
// does not have, or no longer lets in, is made anew.
func openTenant(ctx context.Context, admin *adminClient, path string) (tenant, error) {
	var t tenant
	if err := readJSON(path, &t); err != nil && !errors.Is(err, os.ErrNotExist) {
		return t, hint(err, "remove the file to have new keys made")
	}
	was := t
	if err := t.complete(ctx, admin); err != nil {
		return t, fmt.Errorf("making the first account: %w", err)
	}
	if t == was {
		return t, nil
	}
	if err := writeJSON(path, t); err != nil {
		return t, fmt.Errorf("keeping the keys: %w", err)
	}
	return t, nil
}

func (t *tenant) complete(ctx context.Context, admin *adminClient) error {
	known, err := exists(ctx, admin, "/accounts/"+t.AccountID, t.AccountID)
	if err != nil {
		return err
	}
	if !known {
		*t = tenant{}
		var made struct {
			ID string `json:"id"`
		}
		err := admin.call(ctx, http.MethodPost, "/accounts", map[string]any{
			"name": "Reyes Realty", "activation_mode": store.ModeLive,
			"agent": map[string]string{"email": "dana@example.com", "full_name": "Dana Reyes"},
		}, &made)
		if err != nil {
			return err
		}
		t.AccountID = made.ID
	}
	good, err := goodKeys(ctx, admin, t.AccountID)
	if err != nil {
		return err
	}
	if !good[t.LiveID] {
		if t.LiveID, t.Keys.Live, err = makeKey(ctx, admin, t.AccountID, store.Live); err != nil {
			return err
		}
	}
	if !good[t.TestID] {
		if t.TestID, t.Keys.Test, err = makeKey(ctx, admin, t.AccountID, store.Test); err != nil {
			return err
		}
	}
	return nil
}

// exists tells whether the admin API has something at path; not when id is "".
func exists(ctx context.Context, admin *adminClient, path, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	err := admin.call(ctx, http.MethodGet, path, nil, nil)
	if refused, ok := errors.AsType[*adminError](err); ok && refused.status == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// goodKeys are the ids of the account's keys that are let in.
func goodKeys(ctx context.Context, admin *adminClient, account string) (map[string]bool, error) {
	good := map[string]bool{}
	for cursor := ""; ; {
		var page struct {
			Items []struct {
				ID    string `json:"id"`
				State string `json:"state"`
			} `json:"items"`
			NextCursor *string `json:"next_cursor"`
		}
		if err := admin.call(ctx, http.MethodGet, "/accounts/"+account+"/keys?limit=200&cursor="+cursor, nil, &page); err != nil {
			return nil, err
		}
		for _, k := range page.Items {
			good[k.ID] = k.State == "active" || k.State == "in_grace"
		}
		if page.NextCursor == nil {
			return good, nil
		}
		cursor = *page.NextCursor
	}
}

// makeKey makes a key with every scope.
func makeKey(ctx context.Context, admin *adminClient, account string, env store.Environment) (id, plaintext string, err error) {
	var made struct {
		Key struct {
			ID string `json:"id"`
		} `json:"key"`
		Plaintext string `json:"plaintext"`
	}
	err = admin.call(ctx, http.MethodPost, "/accounts/"+account+"/keys", map[string]any{
		"environment": env,
		"scopes": []string{
			store.ScopeReadAgent, store.ScopeReadCoaching, store.ScopeReadSentinels,
			store.ScopeWriteWebhooks, store.ScopeWriteLeads,
		},
		"label": "edge dev",
	}, &made)
	return made.Key.ID, made.Plaintext, err
}

// enrol returns the file with a node's credentials in dir, and enrols the node
// when there is none yet.
func enrol(ctx context.Context, admin *adminClient, dir, region string) (file string, err error) {
	file = filepath.Join(dir, "node.creds")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	var made struct {
		Credentials string `json:"credentials"`
	}
	err = admin.call(ctx, http.MethodPost, "/nodes", map[string]string{"name": "dev-" + region, "region": region}, &made)
	if err != nil {
		return "", fmt.Errorf("enrolling the node: %w", err)
	}
	if err := writeFile(file, []byte(made.Credentials)); err != nil {
		return "", fmt.Errorf("keeping the node's credentials: %w", err)
	}
	return file, nil
}
