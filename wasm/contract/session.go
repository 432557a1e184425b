package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"partneredge/wasm/contract/pattern"
)

const prefix = "/api/v2/public/"

// Session is the run of one case.
type Session struct {
	T       *testing.T
	Account string     // of this case alone
	Client  netip.Addr // of this case alone

	target *Target
	name   string
	vars   map[string]string
	tokens map[Role]string
}

func newSession(t *testing.T, target *Target, name string, client netip.Addr) *Session {
	s := &Session{
		T: t, Client: client, target: target, name: name,
		vars: map[string]string{}, tokens: map[Role]string{},
	}
	s.UseAccount(Account{Name: "Lima Realty", Live: true, Email: "ana@example.com", Agent: "Ana Lima"})
	s.Set("hook", target.WebhookURL)
	return s
}

// UseAccount creates another account for the case to use.
func (s *Session) UseAccount(a Account) {
	s.Account = s.target.Fixture.Account(s.T, a)
	s.Set("account", s.Account)
	clear(s.tokens)
}

// Elsewhere returns a second client address that no other case has.
func (s *Session) Elsewhere() netip.Addr { return s.Client.Next() }

// Set captures a value under a name.
func (s *Session) Set(name, value string) { s.vars[name] = value }

// Get returns the value captured under a name, and ends the test if there is none.
func (s *Session) Get(name string) string {
	value, ok := s.vars[name]
	if !ok {
		s.T.Fatalf("nothing was captured as %s", name)
	}
	return value
}

// Token returns the plaintext of a role's key. The first call creates the key.
func (s *Session) Token(role Role) string {
	if token, ok := s.tokens[role]; ok {
		return token
	}
	account := s.Account
	if role == Stranger {
		account = s.target.Fixture.Account(s.T, Account{
			Name: "Other Homes", Live: true, Email: "bo@example.com", Agent: "Bo Strand",
		})
	}
	token := s.target.Fixture.Key(s.T, account, s.key(role))
	s.tokens[role] = token
	return token
}

func (s *Session) run(c Case) {
	if c.Setup != nil {
		c.Setup(s)
	}
	for i, step := range c.Steps {
		for range max(step.Times, 1) {
			if !s.Step(step) {
				s.T.Fatalf("step %d failed", i+1)
			}
		}
	}
	if c.Then != nil {
		c.Then(s)
	}
}

// Step runs one step, fails the test unless the answer is as wanted, and reports
// whether it was.
func (s *Session) Step(step Step) bool {
	s.T.Helper()
	if step.Before != nil {
		step.Before(s)
	}
	if step.Key == "" {
		step.Key = Live
	}
	ctx, cancel := context.WithTimeout(s.T.Context(), step.Within)
	defer cancel()
	again := time.Tick(20 * time.Millisecond)
	for {
		x := s.send(step)
		problems := s.judge(step, x)
		if len(problems) == 0 {
			return true
		}
		select {
		case <-again:
			if ctx.Err() == nil {
				continue
			}
		case <-ctx.Done():
		}
		for _, p := range problems {
			s.T.Errorf("%s %s: %s", x.Request.Method, x.Request.URL.RequestURI(), p)
		}
		s.T.Logf("answer: %d %s", x.Response.StatusCode, x.ResponseBody)
		return false
	}
}

// send sends a step's request; its Key must be set.
func (s *Session) send(step Step) Exchange {
	s.T.Helper()
	path := s.fill(step.Path)
	if !strings.HasPrefix(path, "/") {
		path = prefix + path
	}
	body := s.fill(step.Body)
	req, err := http.NewRequestWithContext(s.T.Context(), step.Method, path, strings.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	if _, own := step.Header["Authorization"]; !own && step.Key != NoKey {
		req.Header.Set("Authorization", "Bearer "+s.Token(step.Key))
	}
	for name, values := range step.Header {
		for _, v := range values {
			req.Header[name] = append(req.Header[name], s.fill(v))
		}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	client := s.Client
	if step.Elsewhere {
		client = s.Elsewhere()
	}
	resp, err := s.target.Send(req, client)
	if err != nil {
		s.T.Fatalf("%s %s: %v", step.Method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatalf("%s %s: read answer: %v", step.Method, path, err)
	}
	x := Exchange{s.name, req, []byte(body), resp, answer}
	if s.target.Observe != nil {
		req.Body = io.NopCloser(strings.NewReader(body))
		resp.Body = io.NopCloser(bytes.NewReader(answer))
		s.target.Observe(s.T, x)
	}
	return x
}

// judge returns what is wrong with an answer.
func (s *Session) judge(step Step, x Exchange) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	if x.Response.StatusCode != step.Status {
		bad("status %d, want %d", x.Response.StatusCode, step.Status)
	}
	problems = append(problems, s.common(step, x)...)
	m := pattern.Matcher{Fill: s.fill, Captured: map[string]string{}}
	for name, want := range step.WantHeader {
		values := x.Response.Header.Values(name)
		if len(values) != 1 {
			bad("header %s: %q, want one", name, values)
		} else if p := m.Text(name, want, values[0]); p != "" {
			bad("header %s", p)
		}
	}
	var got, want any
	if err := pattern.Decode(x.ResponseBody, &got); err != nil {
		bad("answer: %v", err)
	} else if err := pattern.Decode([]byte(step.WantBody), &want); err != nil {
		bad("the case's WantBody: %v", err)
	} else {
		problems = append(problems, m.Value("", want, got)...)
	}
	if len(problems) == 0 {
		for name, value := range m.Captured {
			s.Set(name, value)
		}
	}
	return problems
}

// common returns what is wrong with an answer by the rules for all answers.
func (s *Session) common(step Step, x Exchange) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	status, header := x.Response.StatusCode, x.Response.Header

	if ct := header.Get("Content-Type"); !jsonType.MatchString(ct) {
		bad("Content-Type %q", ct)
	}
	if header["Access-Control-Allow-Origin"] != nil {
		bad("pages of other sites may read the answer")
	}
	if !utf8.Valid(x.ResponseBody) {
		bad("the answer is not UTF-8")
	}
	if token := s.tokens[step.Key]; token != "" && bytes.Contains(x.ResponseBody, []byte(token)) {
		bad("the answer holds the key")
	}
	if status >= 400 {
		var e struct{ Error, Reason string }
		if err := json.Unmarshal(x.ResponseBody, &e); err != nil || !code.MatchString(e.Error) {
			bad("error code %q", e.Error)
		}
		if got, want := header.Get("Link"), helpLink(e.Error, e.Reason); got != want {
			bad("Link %s, want %s", got, want)
		}
		wait, err := strconv.Atoi(header.Get("Retry-After"))
		if waits := status == 429 || status == 500 || e.Error == "too_many_failed_attempts"; waits != (err == nil && wait > 0) {
			bad("Retry-After %q", header.Get("Retry-After"))
		}
	}
	if status < 300 || status == http.StatusTooManyRequests {
		key := s.key(step.Key)
		if got := header.Get("X-Ratelimit-Limit"); got != strconv.Itoa(key.RateLimit) {
			bad("x-ratelimit-limit %q, want %d", got, key.RateLimit)
		}
		if n, err := strconv.Atoi(header.Get("X-Ratelimit-Remaining")); err != nil || n < 0 || n >= key.RateLimit {
			bad("x-ratelimit-remaining %q", header.Get("X-Ratelimit-Remaining"))
		}
		if ms, err := strconv.Atoi(header.Get("X-Ratelimit-Reset-Ms")); err != nil || ms < 0 || ms > 60_000 {
			bad("x-ratelimit-reset-ms %q", header.Get("X-Ratelimit-Reset-Ms"))
		}
		reset, _ := strconv.Atoi(header.Get("X-Ratelimit-Reset-Ms"))
		if got, want := header.Get("RateLimit-Policy"), fmt.Sprintf(`"default";q=%d;w=60`, key.RateLimit); got != want {
			bad("RateLimit-Policy %s, want %s", got, want)
		}
		if got, want := header.Get("RateLimit"), fmt.Sprintf(`"default";r=%s;t=%d`, header.Get("X-Ratelimit-Remaining"), (reset+999)/1000); got != want {
			bad("RateLimit %s, want %s", got, want)
		}
		if got := header.Get("X-Svc-Environment"); got != key.Environment {
			bad("x-svc-environment %q, want %q", got, key.Environment)
		}
	}
	return problems
}

// helpLink returns the Link of an error: to where the guide explains it.
func helpLink(code, reason string) string {
	to := code
	if reason != "" {
		to += "-" + reason
	}
	return `</docs/errors#` + to + `>; rel="help"`
}

var (
	jsonType = regexp.MustCompile(`^application/json(; charset=utf-8)?$`)
	code     = regexp.MustCompile(`^[a-z_]+$`)
	variable = regexp.MustCompile(`\$\(([a-z_0-9]+)\)`)
)

// fill replaces each $(name) by the captured value.
func (s *Session) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(v string) string { return s.Get(v[2 : len(v)-1]) })
}
