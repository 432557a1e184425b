// Package contract is the partner interface as a table of cases: what is sent,
// and what must come back, for every row of it. The same table judges plain Go
// handlers, modules under any engine, and a node reached over HTTP.
//
// Each case works on an account of its own, with keys of its own, from a client
// address of its own, so cases may run in any order, against a target that has
// other work, and more than once.
//
//	skipped := contract.Run(t, contract.Target{
//		Send:    contract.Handler(h),
//		Clients: true,
//		Fixture: contract.InMemory(world, clock.Now),
//		Advance: clock.Advance,
//	})
//
// Every answer, whatever the case, is also held to what all answers have in
// common: JSON, no more and no less than the contract's fields, the rate-limit
// headers, and nothing of the key.
package contract

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// Target is what the cases run against.
type Target struct {
	// Send sends one request as if it came from client.
	Send func(req *http.Request, client netip.Addr) (*http.Response, error)
	// Clients tells that Send can choose the client's address. Without it, cases
	// that fail to authenticate are left out: they would lock out the others.
	Clients bool
	// Fixture makes accounts, keys and data.
	Fixture Fixture
	// Advance moves the target's clock; nil when it cannot be moved. Cases that
	// need it are then left out.
	Advance func(time.Duration)
	// Outage cuts the target off from all that it asks for, but for what it
	// already holds of keys, until end is called; nil when that cannot be done.
	// Cases that need it are then left out.
	Outage func(testing.TB) (end func())
	// WebhookURL is an address at which the target lets webhooks be
	// registered; "" means https://1.1.1.1/hooks. No case makes an event after
	// registering it.
	WebhookURL string
	// Observe is shown every exchange before it is judged; nil for none.
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

// Fixture makes what cases need on the target. Methods end the test when they
// fail. What they made is there, for the target, when they return.
type Fixture interface {
	// Account makes an account with its agent.
	Account(testing.TB, Account) (id string)
	// Key makes an API key and returns its plaintext.
	Key(t testing.TB, accountID string, key Key) (token string)
	// RevokeKey revokes a key by hand.
	RevokeKey(t testing.TB, token string)
	// Insights adds coaching insights as one coaching run.
	Insights(t testing.TB, accountID string, insights []Insight)
	// Firings adds firings of sentinels, in this order.
	Firings(t testing.TB, accountID string, firings []Firing)
	// Leads are those that the account has now, in any order.
	Leads(t testing.TB, accountID string) []Lead
	// Subscriptions are those that the account has now, revoked ones too, in
	// any order.
	Subscriptions(t testing.TB, accountID string) []Subscription
}

// Account to be made.
type Account struct {
	Name  string
	Live  bool // activation mode "live" rather than "setup"
	Email string
	Agent string // full name
}

// State of a key.
type State int

// States.
const (
	Active       State = iota
	InGrace            // rotated, and still good
	GraceExpired       // rotated, and no longer good
	Expired            // past its hard expiry
	Revoked            // by hand
)

// Key to be made.
type Key struct {
	Environment string   // "live" or "test"
	Scopes      []string // such as "read:agent"
	RateLimit   int      // requests a minute
	Allowlist   []netip.Prefix
	State       State
}

// Insight to be made.
type Insight struct {
	Headline, Detail string
	Created          time.Time
}

// Firing to be made.
type Firing struct {
	Name, Action string
	Triggered    time.Time
	Data         string // a JSON object
}

// Lead as it was kept.
type Lead struct {
	ID, FirstName, LastName, Email, Phone string
	ConsentStatus, ConsentText            string
	Captured                              time.Time // zero when not told
	Environment                           string
}

// Subscription as it was kept.
type Subscription struct {
	ID, TargetURL, Environment string
	Events                     []string
	Revoked                    bool
}

// Need is something that not every target has.
type Need int

// Needs.
const (
	Clients Need = 1 << iota
	Clock
	Outage
)

// Case is one rule of the contract. A name is "area/what".
type Case struct {
	Name  string
	Needs Need
	Setup func(*Session) // before the first step; nil for nothing
	Steps []Step
	Then  func(*Session) // after the last step; nil for nothing
}

// Run runs every case, each as a subtest, and returns the names of those that
// it left out because of what the target lacks.
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
	// Somewhere in 127/8, so that a second run against the same target does not
	// meet the lockouts of the first.
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

// Cases returns the whole table.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{
		authentication(), authorization(), rateLimit(), requests(), agents(),
		coaching(), sentinels(), subscribe(), targets(), revoke(), leads(), leadFields(), outages(),
	} {
		all = append(all, part...)
	}
	return all
}
