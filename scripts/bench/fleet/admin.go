// Package fleet runs origins and nodes as processes, for benchmarks.
package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// Admin calls the admin API.
type Admin struct {
	URL, Token string
	Client     *http.Client
}

// Call sends in, unless it is nil, and reads the answer into out, unless that is.
// A status beyond 2xx is an error.
func (a *Admin) Call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if in == nil {
		body = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, a.URL+"/admin/v1"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.Token)
	resp, err := a.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// Account makes a live account.
func (a *Admin) Account(ctx context.Context) (id string, err error) {
	var made struct{ ID string }
	err = a.Call(ctx, "POST", "/accounts", map[string]any{
		"name": "Bench", "activation_mode": "live", "agent": map[string]string{"email": "bench@example.com", "full_name": "Bench"},
	}, &made)
	return made.ID, err
}

// Key makes a live key with every scope and a limit a minute.
func (a *Admin) Key(ctx context.Context, account string, limit int) (id, plaintext string, err error) {
	var made struct {
		Key       struct{ ID string }
		Plaintext string
	}
	err = a.Call(ctx, "POST", "/accounts/"+account+"/keys", map[string]any{
		"environment": "live", "rate_limit": limit,
		"scopes": []string{"read:agent", "read:coaching", "read:sentinels", "write:webhooks", "write:leads"},
	}, &made)
	return made.Key.ID, made.Plaintext, err
}

// Enrol makes a node and writes its credentials to a file in dir.
func (a *Admin) Enrol(ctx context.Context, dir, name string) (file string, err error) {
	var made struct{ Credentials string }
	if err := a.Call(ctx, "POST", "/nodes", map[string]string{"name": name, "region": name}, &made); err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, "node.creds")
	return file, os.WriteFile(file, []byte(made.Credentials), 0o600)
}
