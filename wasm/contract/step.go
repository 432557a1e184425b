package contract

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Step is one request and the answer that must come back. In Path, Header, Body,
// WantHeader and WantBody, $(name) stands for a value that an earlier step has
// captured, or that every session has: $(account), $(hook).
type Step struct {
	// Before runs before the request; may be nil.
	Before func(*Session)
	Method string
	Path   string // below /api/v2/public/; from the root if it starts with "/"
	// Key is the role of the key to send; "" means Live.
	Key Role
	// Header holds further headers. Authorization here replaces that of the key.
	Header http.Header
	Body   string
	// Elsewhere sends the request from Session.Elsewhere instead of the session's
	// own address.
	Elsewhere bool
	// Times is the number of times to send the request; 0 means once. Every answer must be as
	// wanted.
	Times int
	// Within is how long to repeat the request until the answer is as wanted; 0
	// means that the first must be. It is for changes that take time to reach a
	// node.
	Within time.Duration

	Status int
	// WantHeader holds patterns as in WantBody, each for the whole value.
	WantHeader map[string]string
	// WantBody is JSON that the answer must equal. A string in it may be a pattern,
	// see package pattern.
	WantBody string
}

func get(path string, status int, want string) Step {
	return Step{Method: "GET", Path: path, Status: status, WantBody: want}
}

func post(path, body string, status int, want string) Step {
	return Step{Method: "POST", Path: path, Body: body, Status: status, WantBody: want}
}

func remove(path string, status int, want string) Step {
	return Step{Method: "DELETE", Path: path, Status: status, WantBody: want}
}

// The methods below return a changed copy of a step.

func (s Step) as(key Role) Step                     { s.Key = key; return s }
func (s Step) times(n int) Step                     { s.Times = n; return s }
func (s Step) within(d time.Duration) Step          { s.Within = d; return s }
func (s Step) elsewhere() Step                      { s.Elsewhere = true; return s }
func (s Step) before(run func(*Session)) Step       { s.Before = run; return s }
func (s Step) answers(status int, want string) Step { s.Status, s.WantBody = status, want; return s }

// after advances the clock by d before the request.
func (s Step) after(d time.Duration) Step {
	return s.before(func(s *Session) { s.target.Advance(d) })
}

// with sends a header.
func (s Step) with(name string, values ...string) Step {
	s.Header = maps.Clone(s.Header)
	if s.Header == nil {
		s.Header = http.Header{}
	}
	s.Header[name] = values
	return s
}

// wants requires a header of the answer to match a pattern.
func (s Step) wants(header, pattern string) Step {
	s.WantHeader = maps.Clone(s.WantHeader)
	if s.WantHeader == nil {
		s.WantHeader = map[string]string{}
	}
	s.WantHeader[header] = pattern
	return s
}

// rule returns a case of these steps.
func rule(name string, steps ...Step) Case { return Case{Name: name, Steps: steps} }

// The methods below return a changed copy of a case.

func (c Case) needs(n Need) Case              { c.Needs = n; return c }
func (c Case) setup(run func(*Session)) Case  { c.Setup = run; return c }
func (c Case) then(check func(*Session)) Case { c.Then = check; return c }

// Role names a key that a session can have.
type Role string

// Roles. Those marked "all" have every scope. All have a limit of 100 requests a
// minute except Slow, SlowHere and Fast.
const (
	NoKey        Role = "no key at all"
	Live         Role = "live"           // all
	Test         Role = "test"           // all
	Second       Role = "second"         // all, another live key of the account
	Stranger     Role = "stranger"       // all, of another account
	InGraceKey   Role = "in grace"       // all
	GraceOver    Role = "grace over"     // all
	ExpiredKey   Role = "expired"        // all
	RevokedKey   Role = "revoked"        // all
	Here         Role = "here"           // all, from the session's address only
	ElsewhereKey Role = "elsewhere"      // all, from 192.0.2.0/24 only
	Slow         Role = "slow"           // all, 3 requests a minute
	SlowHere     Role = "slow here"      // as Slow and Here
	Fast         Role = "fast"           // all, 100 000 requests a minute
	NoScope      Role = "without scopes" // none
)

// only is the role of a key with one scope, without that of a key with every
// other scope.
func only(scope string) Role    { return Role("only " + scope) }
func without(scope string) Role { return Role("without " + scope) }

var scopes = []string{"read:agent", "read:coaching", "read:sentinels", "write:webhooks", "write:leads"}

// key returns the key to create for a role.
func (s *Session) key(role Role) Key {
	k := Key{Environment: "live", RateLimit: 100, Scopes: scopes}
	here := []netip.Prefix{netip.PrefixFrom(s.Client, s.Client.BitLen())}
	switch role {
	case Live, Second, Stranger:
	case Test:
		k.Environment = "test"
	case InGraceKey:
		k.State = InGrace
	case GraceOver:
		k.State = GraceExpired
	case ExpiredKey:
		k.State = Expired
	case RevokedKey:
		k.State = Revoked
	case Here:
		k.Allowlist = here
	case ElsewhereKey:
		k.Allowlist = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	case Slow:
		k.RateLimit = 3
	case SlowHere:
		k.RateLimit, k.Allowlist = 3, here
	case Fast:
		k.RateLimit = 100_000
	case NoScope:
		k.Scopes = nil
	default:
		kind, scope, _ := strings.Cut(string(role), " ")
		if !slices.Contains(scopes, scope) {
			s.T.Fatalf("no such role: %s", role)
		}
		k.Scopes = []string{scope}
		if kind == "without" {
			k.Scopes = slices.DeleteFunc(slices.Clone(scopes), func(have string) bool { return have == scope })
		}
	}
	return k
}
