package authoring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"partneredge/edge/hint"
	"partneredge/wasm/sandboxctl"
)

// Cases is the content of cases.json: requests to the module, and what it must answer.
type Cases struct {
	// Upstreams stand for the servers that the module asks.
	Upstreams []Upstream `json:"upstreams,omitempty"`
	Cases     []Case     `json:"cases"`
}

// Case is one rule of the module. It has an account, keys and a clock of its own, so
// cases may run in any order.
type Case struct {
	Name string `json:"name"`
	// Setup are commands of package sandboxctl, run before the first step. Without an
	// account they act on the case's.
	Setup []sandboxctl.Command `json:"setup,omitempty"`
	// Upstreams are answers that this case gets in place of those of the same request.
	Upstreams []Upstream `json:"upstreams,omitempty"`
	Steps     []Step     `json:"steps"`
}

// Step is one request and the answer that must come back. In Path, Body, Headers and
// what is wanted, $(name) stands for what an earlier step captured, and $(account) for
// the case's account.
type Step struct {
	Method string `json:"method,omitempty"` // default GET
	Path   string `json:"path"`             // below /api/v2/public/; from the root if it starts with "/"
	// Key is the key that the request brings: "live" (the default) and "test" have every
	// scope; "none" sends none; "only SCOPE" has one, "without SCOPE" all others.
	Key     string            `json:"key,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	// Body is JSON. A string is sent as its text, so that what is no JSON can be sent.
	Body json.RawMessage `json:"body,omitempty"`
	// After moves the clock forward before the request: "90s".
	After duration `json:"after,omitempty"`
	// Times is the number of times that the request is sent; every answer must be as wanted. Default 1.
	Times int `json:"times,omitempty"`

	Status int `json:"status"`
	// WantHeaders and Want are what the answer must have. Strings in them may be
	// patterns, see package wasm/contract/pattern. Without Want any body will do.
	WantHeaders map[string]string `json:"want_headers,omitempty"`
	Want        json.RawMessage   `json:"want,omitempty"`
}

// Upstream stands for a server of the manifest's allow_dial.
type Upstream struct {
	Address string `json:"address"` // host:port, as in allow_dial
	// Certificate and Key are PEM files in the module's folder, for one that is asked
	// over TLS. The module must trust who signed it.
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	// Answers are by method and request target: "GET /v1/rates?base=USD".
	Answers map[string]UpstreamAnswer `json:"answers,omitempty"`
	// Down refuses every connection.
	Down bool `json:"down,omitempty"`
}

// UpstreamAnswer is the answer of an upstream that stands for a server.
type UpstreamAnswer struct {
	Status  int               `json:"status,omitempty"` // default 200
	Headers map[string]string `json:"headers,omitempty"`
	Body    json.RawMessage   `json:"body,omitempty"`  // as in a Step
	Delay   duration          `json:"delay,omitempty"` // before the answer, in real time
}

// duration is a time.Duration that JSON has as a text such as "1.5s".
type duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err == nil && parsed < 0 {
		err = fmt.Errorf("duration %s is negative", text)
	}
	*d = duration(parsed)
	return err
}

// readCases reads the module's cases.
func (p *Project) readCases() (*Cases, error) {
	text, err := os.ReadFile(filepath.Join(p.Dir, casesFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, hint.Add(fmt.Errorf("reading the cases: %w", err), `write one: {"cases": [{"name": "…", "steps": [{"path": "…", "status": 200}]}]}`)
	}
	var c Cases
	if err == nil {
		err = parse(text, &c)
	}
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the cases: %s: %w", casesFile, err)
	}
	return &c, nil
}

// check returns an error for cases that can mean nothing.
func (c *Cases) check() error {
	if len(c.Cases) == 0 {
		return errors.New("there are none")
	}
	seen := map[string]bool{}
	for _, one := range c.Cases {
		switch {
		case one.Name == "":
			return errors.New("a case has no name")
		case seen[one.Name]:
			return fmt.Errorf("two cases are named %q", one.Name)
		case len(one.Steps) == 0:
			return fmt.Errorf("case %q has no steps", one.Name)
		}
		seen[one.Name] = true
		for i, s := range one.Steps {
			if s.Path == "" || s.Status < 100 || s.Status > 599 || s.Times < 0 {
				return fmt.Errorf("case %q: step %d needs a path, and a status from 100 to 599", one.Name, i+1)
			}
		}
	}
	return nil
}

// bodyText returns the bytes to send for a body in the JSON of a case.
func bodyText(body json.RawMessage) string {
	body = bytes.TrimSpace(body)
	var text string
	// Null would decode too, to the empty text.
	if bytes.HasPrefix(body, []byte{'"'}) && json.Unmarshal(body, &text) == nil {
		return text
	}
	return string(body)
}
