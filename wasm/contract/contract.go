// Package contract holds the partner interface as a table of cases: for every
// rule the requests to send and the answers that must come back. The same table
// tests plain Go handlers, modules under any engine, and a node over HTTP.
//
// Each case has an account, keys and a client address of its own. So cases may
// run in any order, more than once, and against a target that has other work.
//
//	target := contract.InMemory(t, backend, clock)
//	target.Send = contract.Handler(h)
//	skipped := contract.Run(t, target)
//
// Whatever the case, every answer must also keep the rules for all answers: it
// is JSON with exactly the fields of the contract, has the rate-limit headers,
// and does not contain the key.
package contract

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"partneredge/wasm/sandboxctl"
)

// Target is a system under test.
type Target struct {
	// Send sends one request as if it came from client.
	Send func(req *http.Request, client netip.Addr) (*http.Response, error)
	// Clients reports whether Send can choose the client's address. If not, Run
	// skips the cases that fail to authenticate, as they would lock out the rest.
	Clients bool
	// Fixture creates accounts, keys and data.
	Fixture Fixture
	// Advance moves the target's clock. If nil, Run skips the cases that need it.
	Advance func(time.Duration)
	// Outage cuts the target off from its origin, except for the keys that it
	// holds, until end is called. If nil, Run skips the cases that need it.
	Outage func(testing.TB) (end func())
	// WebhookURL is an address for which the target accepts subscriptions. No case
	// emits an event after subscribing. Default: https://1.1.1.1/hooks.
	WebhookURL string
	// Observe, if set, is called with every exchange before it is judged.
	Observe func(testing.TB, Exchange)
}

// Exchange is one request and its answer.
type Exchange struct {
	Case         string
	Request      *http.Request // its body is RequestBody
	RequestBody  []byte
	Response     *http.Response // its body is ResponseBody
	ResponseBody []byte
}

// Fixture creates the data of cases on a target. A method that fails ends the
// test. When a method returns, the target knows of what it created.
type Fixture interface {
	// Account creates an account with its agent.
	Account(testing.TB, Account) (id string)
	// Key creates an API key and returns its plaintext.
	Key(t testing.TB, accountID string, key Key) (token string)
	// RevokeKey revokes a key.
	RevokeKey(t testing.TB, token string)
	// Insights adds coaching insights as one coaching run.
	Insights(t testing.TB, accountID string, insights []Insight)
	// Firings adds firings of sentinels, in this order.
	Firings(t testing.TB, accountID string, firings []Firing)
	// Leads returns the leads of the account, in any order.
	Leads(t testing.TB, accountID string) []Lead
	// Subscriptions returns the subscriptions of the account, including revoked
	// ones, in any order.
	Subscriptions(t testing.TB, accountID string) []Subscription
}

// Account is an account to be created.
type Account struct {
	Name  string
	Live  bool // activation mode "live" rather than "setup"
	Email string
	Agent string // full name
}

// Key is an API key to be created.
type Key struct {
	Environment string   // "live" or "test"
	Scopes      []string // such as "read:agent"
	RateLimit   int      // requests a minute
	Allowlist   []netip.Prefix
	State       State
}

// The data of a fixture has the form that the sandbox's commands have.
type (
	// State is the state in which a key is created.
	State = sandboxctl.State
	// Insight is a coaching insight to be created.
	Insight = sandboxctl.Insight
	// Firing is a firing of a sentinel to be created.
	Firing = sandboxctl.Firing
	// Lead is a lead that the target has kept.
	Lead = sandboxctl.Lead
	// Subscription is a webhook subscription that the target has kept.
	Subscription = sandboxctl.Subscription
)

// States of a key.
const (
	Active       = sandboxctl.Active
	InGrace      = sandboxctl.InGrace
	GraceExpired = sandboxctl.GraceExpired
	Expired      = sandboxctl.Expired
	Revoked      = sandboxctl.Revoked
)

// Need is a set of abilities that not every target has.
type Need int

// Needs; each names the field of Target that provides it.
const (
	Clients Need = 1 << iota
	Clock        // Target.Advance
	Outage
)

// Case is one rule of the contract. Its name has the form "area/rule".
type Case struct {
	Name  string
	Needs Need
	Setup func(*Session) // runs before the first step; may be nil
	Steps []Step
	Then  func(*Session) // runs after the last step; may be nil
}

// Run runs every case as a subtest and returns the names of those that it
// skipped because the target lacks what they need.
func Run(t *testing.T, target Target) (skipped []string) {
	t.Helper()
	if target.WebhookURL == "" {
		target.WebhookURL = "https://1.1.1.1/hooks"
	}
	var has Need
	if target.Clients {
		has |= Clients
	}
	if target.Advance != nil {
		has |= Clock
	}
	if target.Outage != nil {
		has |= Outage
	}
	// A random network in 127/8, so that a second run against the same target does
	// not meet the lockouts of the first.
	client := netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(256)), 0})
	for _, c := range Cases() {
		if c.Needs&^has != 0 {
			skipped = append(skipped, c.Name)
			continue
		}
		client = client.Next().Next() // Session.Elsewhere is the one after
		t.Run(c.Name, func(t *testing.T) {
			newSession(t, &target, c.Name, client).run(c)
		})
	}
	return skipped
}

// Cases returns all cases.
func Cases() []Case {
	return slices.Concat(
		authentication(), authorizationHeaders(), lockout(), authorization(), rateLimit(), requests(),
		agents(), coaching(), coachingParameters(), sentinels(), sentinelParameters(),
		subscribe(), subscribeFields(), targets(), revoke(),
		leads(), idempotency(), subscribeOnce(), leadFields(), leadContacts(), outages(),
	)
}
