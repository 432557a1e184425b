// Package fake is an in-memory fake of everything that modules may ask their
// host for: keys, rate limits, lockouts, account data, subscriptions and leads.
// It follows the rules of the real stores, so the pipeline and the handlers can
// run on it in a test, under any engine, or inside one self-contained WASI
// program.
//
// The fake needs no operating system. The caller supplies the clock, and keys
// and identifiers come from a fixed seed, so the same calls always create the
// same records. It keeps no secrets and deletes nothing.
package fake

import (
	"cmp"
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

// Backend holds all records. Its methods may be called from many goroutines at
// once; its exported fields must be set before the first call.
type Backend struct {
	// Guard returns the reason why a host may not be a webhook target, "" if it
	// may. host is in the form that targeturl.Parse returns. Default: PublicOnly.
	Guard func(host string) (reason string)

	now func() int64

	mu       sync.Mutex
	random   *rand.ChaCha8
	failures map[abi.Op]abi.Code // what each operation fails with, see Fail
	outage   bool
	accounts map[string]*account
	tokens   map[string]*abi.Key // by plaintext
	keys     map[string]*abi.Key // by id
	buckets  map[string]*bucket
	lockouts map[string]*lockout
}

// account is one account with everything that it owns. Insights and firings are
// newest first, subscriptions and leads in the order of creation.
type account struct {
	profile       abi.Profile
	insights      []abi.Insight
	firings       []abi.Firing
	subscriptions []*Subscription
	leads         []Lead
	eventAt       int64                  // when its last event was made
	idempotency   map[string]idempotency // by key id and idempotency key
	values        map[string]string      // stages of deals and paces of goals
}

// New returns a Backend without records. now is in microseconds since the Unix
// epoch.
func New(now func() int64) *Backend {
	return &Backend{
		Guard:    PublicOnly,
		now:      now,
		random:   rand.NewChaCha8([32]byte{}),
		failures: map[abi.Op]abi.Code{},
		accounts: map[string]*account{},
		tokens:   map[string]*abi.Key{},
		keys:     map[string]*abi.Key{},
		buckets:  map[string]*bucket{},
		lockouts: map[string]*lockout{},
	}
}

// AddAccount creates an account and returns it. Fields that p leaves out get
// defaults: both ids are generated, Joined is now, and Mode is "setup".
func (b *Backend) AddAccount(p abi.Profile) abi.Profile {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.AgentID == "" {
		p.AgentID = b.newID("agt")
	}
	if p.AccountID == "" {
		p.AccountID = b.newID("acc")
	}
	p.Joined, p.Mode = cmp.Or(p.Joined, b.now()), cmp.Or(p.Mode, "setup")
	b.accounts[p.AccountID] = &account{profile: p, idempotency: map[string]idempotency{}, values: map[string]string{}}
	return p
}

// HasAccount reports whether there is an account.
func (b *Backend) HasAccount(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accounts[id] != nil
}

// Fail makes every later call of op fail with code. Code 0 ends that.
func (b *Backend) Fail(op abi.Op, code abi.Code) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures[op] = code
}

// SetOutage starts or ends an outage of the origin. During an outage every
// operation that needs the origin fails with abi.CodeUnavailable. Keys that the
// Backend has stay usable, as on a node that holds a replica of them; other
// keys cannot be looked up.
func (b *Backend) SetOutage(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.outage = on
}

// failure returns the error that a call of op must fail with. b.mu is held.
func (b *Backend) failure(op abi.Op) error {
	if code := b.failures[op]; code != 0 {
		return code
	}
	if b.outage && (op.Needs() == abi.Views || op.Needs() == abi.Subscriptions) {
		return abi.CodeUnavailable
	}
	return nil
}

// newID returns a new identifier. b.mu is held.
func (b *Backend) newID(prefix string) string {
	var random [10]byte
	_, _ = b.random.Read(random[:]) // documented never to fail
	return typeid.Make(prefix, b.now()/1000, random)
}
