// Package fake is an in-memory fake of all that modules may ask for: keys, rate
// limits, lockouts, accounts, subscriptions and leads. It answers everything
// that the pipeline and the handlers may ask, by the rules of the real stores,
// so that they can be run in a test, under any engine, or inside one
// self-contained WASI program.
//
// It asks nothing of an operating system. The clock is given, and what it
// makes, keys and identifiers, comes from a fixed seed: the same calls make the
// same world. Nothing in it is secret, and nothing is ever thrown away.
package fake

import (
	"math/rand/v2"
	"sync"

	"partneredge/wasm/abi"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/typeid"
)

var _ pipeline.Host = (*Backend)(nil)

// Times, in microseconds.
const (
	Second = int64(1_000_000)
	Minute = 60 * Second
	Day    = 24 * 60 * Minute
	Year   = 365 * Day
)

// Backend holds everything. It may be used from many goroutines at once; its
// exported fields are set before the first use.
type Backend struct {
	// Lockouts says when an address is locked out. The zero value means 20
	// failures within 5 minutes, for 15 minutes.
	Lockouts LockoutRule
	// MaxSubscriptions an account may have that are not revoked; 0 means 100.
	MaxSubscriptions int
	// Guard tells why a host may not be a webhook target, "" when it may; nil
	// means PublicOnly. host is as targeturl.Parse returns it.
	Guard func(host string) (reason string)

	now func() int64

	mu       sync.Mutex
	random   *rand.ChaCha8
	broken   map[abi.Op]abi.Code
	isolated bool
	accounts map[string]*account
	tokens   map[string]*abi.Key // by plaintext
	keys     map[string]*abi.Key // by id
	buckets  map[string]*bucket
	failures map[string]*failures
}

// account is one account and all that it owns; lists are in the order made or,
// where they have a time of their own, newest first.
type account struct {
	profile       abi.Profile
	insights      []abi.Insight
	firings       []abi.Firing
	subscriptions []*Subscription
	leads         []Lead
	firsts        map[string]first // by key id and idempotency key
}

// New makes an empty world. now is in microseconds since the Unix epoch.
func New(now func() int64) *Backend {
	return &Backend{
		now:      now,
		random:   rand.NewChaCha8([32]byte{}),
		broken:   map[abi.Op]abi.Code{},
		accounts: map[string]*account{},
		tokens:   map[string]*abi.Key{},
		keys:     map[string]*abi.Key{},
		buckets:  map[string]*bucket{},
		failures: map[string]*failures{},
	}
}

// AddAccount makes an account. What p leaves out is made up: both ids, joined
// (now), and mode ("setup"). It returns the account as it is now.
func (w *Backend) AddAccount(p abi.Profile) abi.Profile {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.AgentID == "" {
		p.AgentID = w.newID("agt")
	}
	if p.AccountID == "" {
		p.AccountID = w.newID("acc")
	}
	if p.Joined == 0 {
		p.Joined = w.now()
	}
	if p.Mode == "" {
		p.Mode = "setup"
	}
	w.accounts[p.AccountID] = &account{profile: p}
	return p
}

// Break makes every later call of op fail with code; code 0 mends it.
func (w *Backend) Break(op abi.Op, code abi.Code) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken[op] = code
}

// Isolate makes the world answer abi.CodeUnavailable for keys that it does not
// have, as a node does that cannot ask whether there is such a key.
func (w *Backend) Isolate(isolated bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isolated = isolated
}

// failing is the error that op was told to fail with.
func (w *Backend) failing(op abi.Op) error {
	if code := w.broken[op]; code != 0 {
		return code
	}
	return nil
}

// newID is called with w.mu held.
func (w *Backend) newID(prefix string) string {
	var random [10]byte
	_, _ = w.random.Read(random[:]) // never fails, says its documentation
	return typeid.Make(prefix, w.now()/1000, random)
}
