package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// adminClient calls the origin's admin API.
type adminClient struct {
	url, token string
	http       http.Client
}

func newAdminClient(url, token string) *adminClient {
	return &adminClient{url: url, token: token, http: http.Client{Timeout: 30 * time.Second}}
}

// adminError is an answer other than 2xx.
type adminError struct {
	method, path string
	status       int
	body         string
}

func (e *adminError) Error() string {
	return fmt.Sprintf("admin API: %s %s: status %d: %s", e.method, e.path, e.status, e.body)
}

// call sends in (nil: no body) to path below /admin/v1 and reads the answer into
// out (nil: not read).
func (c *adminClient) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/admin/v1"+path, body)
	if err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("admin API: %s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 != 2 {
		return &adminError{method, path, resp.StatusCode, string(answer)}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("admin API: %s %s: %w", method, path, err)
	}
	return nil
}
