package authoring

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"partneredge/wasm/abi"
	"partneredge/wasm/contract/pattern"
	"partneredge/wasm/fake"
	"partneredge/wasm/route"
	"partneredge/wasm/sandboxctl"
)

// session is the run of one case.
type session struct {
	api     http.Handler
	backend *fake.Backend
	clock   *fake.Clock
	own     []string // scopes of the module's routes
	account string
	vars    map[string]string
	keys    map[string]string // by role
}

func newSession(backend *fake.Backend, clock *fake.Clock, own []string) *session {
	s := &session{backend: backend, clock: clock, own: own, vars: map[string]string{}, keys: map[string]string{}}
	s.account = backend.AddAccount(abi.Profile{AccountName: "Lima Realty", Email: "ana@example.com", FullName: "Ana Lima", Mode: "live"}).AccountID
	s.vars["account"] = s.account
	return s
}

// run runs a case and returns what is wrong with the answers.
func (s *session) run(c Case) (problems []string) {
	for i, command := range c.Setup {
		command.Account = cmp.Or(command.Account, s.account)
		if _, err := (sandboxctl.Controller{Backend: s.backend, Clock: s.clock}).Do(command); err != nil {
			return []string{fmt.Sprintf("setup %d: %v", i+1, err)}
		}
	}
	for i, step := range c.Steps {
		for range max(step.Times, 1) {
			wrong, err := s.step(step)
			if err != nil {
				wrong = []string{err.Error()}
			}
			for _, one := range wrong {
				problems = append(problems, fmt.Sprintf("step %d: %s %s: %s", i+1, cmp.Or(step.Method, http.MethodGet), step.Path, one))
			}
			if len(wrong) > 0 {
				return problems // the next steps build on this one
			}
		}
	}
	return nil
}

// step sends a request and returns what is wrong with its answer.
func (s *session) step(step Step) ([]string, error) {
	s.clock.Advance(time.Duration(step.After))
	req, err := s.request(step)
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, req)
	problems, err := s.judge(step, w)
	if len(problems) > 0 {
		problems = append(problems, fmt.Sprintf("the answer was %d %s", w.Code, bytes.TrimSpace(w.Body.Bytes())))
	}
	return problems, err
}

func (s *session) request(step Step) (*http.Request, error) {
	path, err := s.fill(step.Path)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(path, "/") {
		path = route.Prefix + path
	}
	body, err := s.fill(bodyText(step.Body))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(step.Method, path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.RequestURI, req.Host, req.RemoteAddr = req.URL.RequestURI(), "partner.example", "192.0.2.7:40000"
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	token, err := s.token(step.Key)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range step.Headers {
		if value, err = s.fill(value); err != nil {
			return nil, err
		}
		if strings.EqualFold(name, "host") { // a server finds it there alone
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// token returns the plaintext of the key that a step names, "" for none. The first
// call for a name makes the key.
func (s *session) token(role string) (string, error) {
	if role == "none" {
		return "", nil
	}
	if token, ok := s.keys[role]; ok {
		return token, nil
	}
	scopes := slices.Concat(abi.ScopeNames[:], s.own)
	environment := abi.EnvLive
	kind, scope, _ := strings.Cut(role, " ")
	switch {
	case role == "" || role == "live":
	case role == "test":
		environment = abi.EnvTest
	case (kind == "only" || kind == "without") && !slices.Contains(scopes, scope):
		return "", fmt.Errorf("key %q: there is no scope %q; there are %s", role, scope, strings.Join(scopes, ", "))
	case kind == "only":
		scopes = []string{scope}
	case kind == "without":
		scopes = slices.DeleteFunc(scopes, func(one string) bool { return one == scope })
	default:
		return "", fmt.Errorf(`key %q is none of live, test, none, "only SCOPE" and "without SCOPE"`, role)
	}
	bits, own := abi.SplitScopes(scopes)
	token, _ := s.backend.AddKey(abi.Key{AccountID: s.account, Environment: environment, Scopes: bits, Own: own})
	s.keys[role] = token
	return token, nil
}

// judge returns what is wrong with an answer.
func (s *session) judge(step Step, w *httptest.ResponseRecorder) (problems []string, err error) {
	if w.Code != step.Status {
		problems = append(problems, fmt.Sprintf("status %d, want %d", w.Code, step.Status))
	}
	m := pattern.Matcher{Captured: map[string]string{}, Fill: func(text string) string {
		filled, failed := s.fill(text)
		if failed != nil {
			err = failed
		}
		return filled
	}}
	for name, want := range step.WantHeaders {
		if values := w.Header().Values(name); len(values) != 1 {
			problems = append(problems, fmt.Sprintf("header %s: %q, want one", name, values))
		} else if p := m.Text("header "+name, want, values[0]); p != "" {
			problems = append(problems, p)
		}
	}
	slices.Sort(problems)
	if step.Want != nil {
		problems = append(problems, matchBody(&m, step.Want, w.Body.Bytes())...)
	}
	maps.Copy(s.vars, m.Captured)
	return problems, err
}

func matchBody(m *pattern.Matcher, wanted json.RawMessage, body []byte) []string {
	var want, got any
	if err := pattern.Decode(wanted, &want); err != nil {
		return []string{fmt.Sprintf("what is wanted is no JSON: %v", err)}
	}
	if !utf8.Valid(body) { // which decoding would mend
		return []string{"the answer is not UTF-8"}
	}
	if err := pattern.Decode(body, &got); err != nil {
		return []string{fmt.Sprintf("the answer is no JSON: %v", err)}
	}
	return m.Value("", want, got)
}

var variable = regexp.MustCompile(`\$\(([a-z_0-9]+)\)`)

// fill replaces each $(name) by the captured value.
func (s *session) fill(text string) (filled string, err error) {
	filled = variable.ReplaceAllStringFunc(text, func(v string) string {
		value, ok := s.vars[v[2:len(v)-1]]
		if !ok {
			err = fmt.Errorf("nothing was captured as %s", v)
		}
		return value
	})
	return filled, err
}
