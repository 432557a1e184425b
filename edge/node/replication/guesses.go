package replication

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"partneredge/host"
	"partneredge/store/cidr"
	"partneredge/store/local"
)

// Bounds of the lookups under way of keys that are not held, which anybody brings
// about who makes keys up. Beyond them a request is refused at once.
const (
	maxGuesses          = 128 // half of what the link takes: the rest is for keys and views that are held
	maxGuessesOfNetwork = 16  // of a client's /24, or /48 of IPv6
)

// guesses counts the lookups under way of keys that are not held.
type guesses struct {
	mu       sync.Mutex
	all      int
	networks map[netip.Prefix]int
}

// enter reports whether a client's lookup may begin; leave must be called at its
// end.
func (g *guesses) enter(client netip.Addr) (leave func(), ok bool) {
	network := cidr.Site(client)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all >= maxGuesses || g.networks[network] >= maxGuessesOfNetwork {
		return nil, false
	}
	if g.networks == nil {
		g.networks = make(map[netip.Prefix]int)
	}
	g.all++
	g.networks[network]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.all--
		if g.networks[network]--; g.networks[network] == 0 {
			delete(g.networks, network)
		}
	}, true
}

// lookup is the outcome of a lookup that was made before the request had a sandbox.
type lookup struct {
	hash string
	err  error
}

type lookupKey struct{}

// FindKey looks up the key of a request, so that no sandbox is held while the origin
// is asked or changes are caught up with. The modules then find the key held, or,
// in the context returned, why it is not. Of a client that is locked out nothing is
// looked up, since its key is not looked at.
func (r *Replication) FindKey(ctx context.Context, client netip.Addr, token string) context.Context {
	if r.keys.Store.Lockouts.Lockout(client.String()) > 0 {
		return ctx
	}
	hash := local.KeyName([]byte(token))
	if r.keys.sync.state.settling() == nil { // as nearly always: no timer is needed
		if _, current := r.keys.current(hash); current {
			return ctx
		}
	}
	within, cancel := context.WithTimeout(ctx, answerTimeout+r.keys.ReadTimeout)
	defer cancel()
	if _, held := r.keys.Store.Keys.Get(hash); !held {
		// Nothing of it can be out of date, so a made-up key does not wait for changes,
		// here or in a sandbox.
		_, err := r.keys.find(within, client, hash)
		ctx = context.WithValue(ctx, lookupKey{}, &lookup{hash, err})
		if err != nil {
			return ctx
		}
	}
	r.keys.sync.state.wait(within)
	if _, current := r.keys.current(hash); current {
		return ctx
	}
	_, err := r.keys.find(within, client, hash)
	return context.WithValue(ctx, lookupKey{}, &lookup{hash, err})
}

// guess fetches a key that is not held, for a client.
func (k keys) guess(ctx context.Context, client netip.Addr, hash string) (local.Record, error) {
	w := wanted{name: keyPrefix + hash}
	return k.fetchBy(ctx, w, func(ctx context.Context) (local.Record, error) {
		if rec, current := k.current(hash); current { // the lookup before this one brought it
			return rec, nil
		}
		leave, ok := k.guesses.enter(client)
		if !ok {
			return local.Record{}, fmt.Errorf("%w: too many keys are being looked up", host.ErrUnavailable)
		}
		defer leave()
		return k.fetchFresh(ctx, w)
	})
}
