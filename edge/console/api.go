package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// api calls the admin API in this process.
type api struct{ handler http.Handler }

// refusal is an answer of the API other than 2xx.
type refusal struct {
	status               int
	Kind, Reason, Detail string
}

func (r *refusal) Error() string {
	if r.Detail != "" {
		return r.Detail
	}
	return fmt.Sprintf("%s %s", r.Kind, r.Reason)
}

// call sends in (nil: no body) to path below /admin/v1 with the session's token,
// from where r came, and reads the answer into out (nil: not read).
func (a api) call(r *http.Request, token, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	// The pattern that the API's mux sets is not that of the page.
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), method, "/admin/v1"+path, &body)
	if err != nil {
		return err
	}
	req.RemoteAddr = r.RemoteAddr
	req.Header.Set("Authorization", "Bearer "+token)
	answer := &recorder{header: make(http.Header), status: http.StatusOK}
	a.handler.ServeHTTP(answer, req)
	if answer.status/100 != 2 {
		refused := &refusal{status: answer.status}
		var problem struct{ Error, Reason, Detail string }
		if json.Unmarshal(answer.body.Bytes(), &problem) == nil {
			refused.Kind, refused.Reason, refused.Detail = problem.Error, problem.Reason, problem.Detail
		}
		return refused
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.body.Bytes(), out); err != nil {
		return fmt.Errorf("reading %s %s: %w", method, path, err)
	}
	return nil
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(status int)      { r.status = status }

// What the pages show of the API's records.

type who struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"`
}

type list[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next_cursor"`
}

type account struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Mode    string    `json:"activation_mode"`
	Created time.Time `json:"created_at"`
	Agent   struct {
		Email    string `json:"email"`
		FullName string `json:"full_name"`
	} `json:"agent"`
}

type key struct {
	ID          string     `json:"id"`
	AccountID   string     `json:"account_id"`
	Environment string     `json:"environment"`
	State       string     `json:"state"`
	Scopes      []string   `json:"scopes"`
	Allowlist   []string   `json:"ip_allowlist"`
	Rate        int        `json:"rate_limit"`
	Label       string     `json:"label"`
	Created     time.Time  `json:"created_at"`
	Expires     time.Time  `json:"expires_at"`
	Grace       *time.Time `json:"grace_until"`
}

type minted struct {
	Key       key    `json:"key"`
	Plaintext string `json:"plaintext"`
}

type webhook struct {
	ID          string     `json:"id"`
	AccountID   string     `json:"account_id"`
	Environment string     `json:"environment"`
	Target      string     `json:"target_url"`
	Events      []string   `json:"events"`
	Created     time.Time  `json:"created_at"`
	Revoked     *time.Time `json:"revoked_at"`
	Failing     *time.Time `json:"failing_from"`
	State       string     `json:"state"` // active, failing, failing_long, revoked
}

type delivery struct {
	ID        string     `json:"id"`
	EventID   string     `json:"event_id"`
	EventType string     `json:"event_type"`
	WebhookID string     `json:"subscription_id"`
	State     string     `json:"state"`
	Attempts  int        `json:"attempts"`
	Next      *time.Time `json:"next_at"`
	Created   time.Time  `json:"created_at"`
	Tries     []struct {
		Number  int       `json:"number"`
		Started time.Time `json:"started_at"`
		Latency float64   `json:"latency_ms"`
		Status  *int      `json:"status"`
		Error   string    `json:"error"`
	} `json:"tries"`
}

type node struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Region    string     `json:"region"`
	Created   time.Time  `json:"created_at"`
	Revoked   *time.Time `json:"revoked_at"`
	LastSeen  *time.Time `json:"last_seen_at"`
	Connected bool       `json:"connected"`
	Status    *struct {
		Release   string `json:"release"`
		Seq       int64  `json:"seq"`
		Outbox    int    `json:"outbox"`
		HotKeys   int    `json:"hot_keys"`
		Sandboxes int    `json:"sandboxes"`
		Running   *struct {
			Version string `json:"version"`
		} `json:"running"`
	} `json:"status"`
}

type token struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Role    string     `json:"role"`
	Created time.Time  `json:"created_at"`
	Revoked *time.Time `json:"revoked_at"`
}

type audit struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Actor struct {
		ID     string `json:"id"`
		Name   string `json:"name"`
		Role   string `json:"role"`
		Remote string `json:"remote"`
	} `json:"actor"`
	Action string          `json:"action"`
	Target string          `json:"target"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

type traffic struct {
	StepSeconds float64  `json:"step_seconds"`
	Latest      int64    `json:"latest_change"`
	Regions     []region `json:"regions"`
}

type region struct {
	Region        string  `json:"region"`
	Nodes         int     `json:"nodes"`
	Connected     int     `json:"connected"`
	ChangesBehind int64   `json:"changes_behind"`
	Outbox        int     `json:"outbox"`
	Points        []point `json:"points"`
}

type point struct {
	At       time.Time `json:"at"`
	Requests float64   `json:"requests"`
	Errors   float64   `json:"errors"`
	Limited  float64   `json:"limited"`
	P50      *float64  `json:"p50_ms"`
	P99      *float64  `json:"p99_ms"`
}

type outcomes struct {
	Most      int `json:"most"`
	Pending   int `json:"pending"`
	Delivered int `json:"delivered"`
	Dead      int `json:"dead"`
	Cancelled int `json:"cancelled"`
}
