package contract

import (
	"net/http"
	"net/netip"
	"time"
)

// Step is one request and the answer it must get. In Path, Header, Body, Want…
// $(name) stands for a value that an earlier step captured, or that a session
// has from the start: $(account), $(hook).
type Step struct {
	// Before is run first; nil for nothing.
	Before func(*Session)
	Method string
	Path   string // below /api/v2/public/; from the root when it begins with "/"
	// Key whose token is sent; "" means Live.
	Key Role
	// Header to send besides; Authorization here goes instead of the key's.
	Header http.Header
	Body   string
	// From is the client's address; the zero value means the session's own.
	From func(*Session) netip.Addr
	// Times to send it; 0 means once. Every answer must be as wanted.
	Times int
	// Within is for how long to send it again until the answer is as wanted; 0
	// means that the first must be. It is for what takes time to reach a node.
	Within time.Duration

	Status int
	// WantHeader are patterns as in WantBody, each the whole value.
	WantHeader map[string]string
	// WantBody is JSON, to which the answer must be equal. A string in it may
	// be a pattern: see match.
	WantBody string
}

// Role names a key that a session can have.
type Role string

// Roles. Those marked "all" have every scope; all have a limit of 100 requests
// a minute, but for Slow, SlowHere and Fast.
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

// only has one scope, without every scope but one.
func only(scope string) Role    { return Role("only " + scope) }
func without(scope string) Role { return Role("without " + scope) }

var scopes = [...]string{"read:agent", "read:coaching", "read:sentinels", "write:webhooks", "write:leads"}

// key is how a role's key is made.
func (s *Session) key(role Role) Key {
	k := Key{Environment: "live", RateLimit: 100, Scopes: scopes[:]}
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
		k.Allowlist = []netip.Prefix{netip.PrefixFrom(s.Client, s.Client.BitLen())}
	case ElsewhereKey:
		k.Allowlist = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	case Slow:
		k.RateLimit = 3
	case SlowHere:
		k.RateLimit = 3
		k.Allowlist = []netip.Prefix{netip.PrefixFrom(s.Client, s.Client.BitLen())}
	case Fast:
		k.RateLimit = 100_000
	case NoScope:
		k.Scopes = nil
	default:
		k.Scopes = nil
		for _, scope := range scopes {
			if role == only(scope) {
				k.Scopes = []string{scope}
			}
			if role != without(scope) && role[:4] == "with" {
				k.Scopes = append(k.Scopes, scope)
			}
		}
		if len(k.Scopes) == 0 {
			s.T.Fatalf("no such role: %s", role)
		}
	}
	return k
}
