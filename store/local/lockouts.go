package local

import (
	"cmp"
	"container/list"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/wasm/network"
)

// LockoutRules configure when an address is locked out.
type LockoutRules struct {
	Failures  int           // failed authentications that lock out; 0: 20
	Within    time.Duration // time within which they must come; 0: 5 min
	For       time.Duration // how long a lockout lasts; 0: 15 min
	Addresses int           // most addresses remembered, those that failed last; 0: 65 536
}

func (r LockoutRules) withDefaults() LockoutRules {
	r.Failures = cmp.Or(max(r.Failures, 0), 20)
	r.Within = cmp.Or(max(r.Within, 0), 5*time.Minute)
	r.For = cmp.Or(max(r.For, 0), 15*time.Minute)
	r.Addresses = cmp.Or(max(r.Addresses, 0), 65_536)
	return r
}

// Lockouts counts failed authentications by address, or for IPv6 by its /64.
// Counts are in memory. A lockout is also on disk, so that a restart does not lift
// it; an address that goes on failing causes one write for each lockout.
type Lockouts struct {
	rules LockoutRules
	file  *file
	now   func() time.Time

	write  sync.Mutex   // held while the file is changed; locked before mu, which all requests need
	locked atomic.Int64 // addresses with a lockout, which may be over

	mu    sync.Mutex
	known map[string]*list.Element
	order *list.List // of *offender, the last that failed first
}

type offender struct {
	address string
	failed  []int64 // microseconds, the oldest first, at most rules.Failures
	until   int64   // end of the lockout, microseconds; 0 none
}

const lockoutPrefix = "l:"

func newLockouts(rules LockoutRules, f *file, now func() time.Time) (*Lockouts, error) {
	l := &Lockouts{rules: rules.withDefaults(), file: f, now: now, known: map[string]*list.Element{}, order: list.New()}
	at := now().UnixMicro()
	var over []string
	err := f.each(lockoutPrefix, "", func(address, value string) bool {
		v := openValue(value)
		until := v.int()
		if v.bad || until <= at || len(l.known) >= l.rules.Addresses {
			over = append(over, lockoutPrefix+address)
			return true
		}
		l.known[address] = l.order.PushFront(&offender{address: address, until: until})
		return true
	})
	if err == nil && len(over) > 0 {
		err = f.remove(over...)
	}
	if err != nil {
		return nil, fmt.Errorf("read lockouts: %w", err)
	}
	l.locked.Store(int64(len(l.known)))
	return l, nil
}

// Lockout returns for how long the client's address is still locked out, 0 when it
// is not.
func (l *Lockouts) Lockout(client string) time.Duration {
	if l.locked.Load() == 0 {
		return 0
	}
	address := counted(client)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.known[address]; ok {
		return l.left(e.Value.(*offender), l.now().UnixMicro())
	}
	return 0
}

// left returns what is left of a lockout, at most as long as the rules say: one
// that ends later was made before the clock was put back, and begins anew.
func (l *Lockouts) left(o *offender, now int64) time.Duration {
	o.until = min(o.until, now+l.rules.For.Microseconds())
	return max(0, time.Duration(o.until-now)*time.Microsecond)
}

// Failure counts a failed authentication. It returns for how long the address is
// locked out after it, 0 when it is not.
func (l *Lockouts) Failure(client string) (time.Duration, error) {
	address := counted(client)
	l.write.Lock()
	defer l.write.Unlock()
	left, until, gone := l.count(address, l.now().UnixMicro())
	if until == 0 && len(gone) == 0 {
		return left, nil
	}
	err := l.file.update(func(c *changes) error {
		for _, other := range gone {
			c.remove(lockoutPrefix + other)
		}
		if name := lockoutPrefix + address; until != 0 {
			c.set(name, seal(name, putInt(newValue(8), until)))
		}
		return nil
	})
	if err != nil {
		return left, fmt.Errorf("store lockout: %w", err)
	}
	return left, nil
}

// count counts a failure of an address, and returns what is left of its lockout, the end
// of one that begins, or 0, and whose lockouts are to be removed from the file.
func (l *Lockouts) count(address string, now int64) (left time.Duration, until int64, gone []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.known[address]
	if !ok {
		e = l.order.PushFront(&offender{address: address})
		l.known[address] = e
		if len(l.known) > l.rules.Addresses {
			gone = l.unlink(l.order.Back(), nil) // the one that failed longest ago
		}
	}
	l.order.MoveToFront(e)
	o := e.Value.(*offender)
	if left = l.left(o, now); left > 0 {
		return left, 0, gone
	}
	old := now - l.rules.Within.Microseconds()
	kept := o.failed[:0]
	for _, at := range o.failed {
		if at > old && at <= now {
			kept = append(kept, at)
		}
	}
	o.failed = append(kept, now)
	if len(o.failed) < l.rules.Failures {
		return 0, 0, gone
	}
	if o.until == 0 {
		l.locked.Add(1)
	}
	o.failed = nil
	o.until = now + l.rules.For.Microseconds()
	return l.rules.For, o.until, gone
}

// unlink forgets an address, and adds it to gone if it had a lockout. mu is held.
func (l *Lockouts) unlink(e *list.Element, gone []string) []string {
	o := l.order.Remove(e).(*offender)
	delete(l.known, o.address)
	if o.until == 0 {
		return gone
	}
	l.locked.Add(-1)
	return append(gone, o.address)
}

// forget removes from the file the lockouts of addresses that were unlinked, but for those
// that are locked out anew since.
func (l *Lockouts) forget(gone []string) error {
	l.write.Lock()
	defer l.write.Unlock()
	names := make([]string, 0, len(gone))
	l.mu.Lock()
	for _, address := range gone {
		if e, ok := l.known[address]; !ok || e.Value.(*offender).until == 0 {
			names = append(names, lockoutPrefix+address)
		}
	}
	l.mu.Unlock()
	if err := l.file.remove(names...); err != nil {
		return fmt.Errorf("remove lockouts: %w", err)
	}
	return nil
}

// Locked is an address that is locked out.
type Locked struct {
	Address string // for IPv6 its /64
	Left    time.Duration
}

// List returns up to most of the addresses that are locked out, those that failed
// last first, and how many there are in all. Only addresses of the network within
// count, with the zero Prefix all of them.
func (l *Lockouts) List(within netip.Prefix, most int) (list []Locked, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now().UnixMicro()
	for e := l.order.Front(); e != nil; e = e.Next() {
		o := e.Value.(*offender)
		left := l.left(o, now)
		if left == 0 || !o.within(within) {
			continue
		}
		if all++; len(list) < most {
			list = append(list, Locked{o.address, left})
		}
	}
	return list, all
}

// Clear ends the lockouts of the addresses of a network, with the zero Prefix all
// of them, and forgets their failures. It returns how many lockouts it ended.
func (l *Lockouts) Clear(within netip.Prefix) (cleared int, err error) {
	now := l.now().UnixMicro()
	err = l.removeAll(func(o *offender) (remove, more bool) {
		if remove = o.within(within); remove && l.left(o, now) > 0 {
			cleared++
		}
		return remove, true
	})
	return cleared, err
}

// removeAll removes the addresses that which tells, beginning with the one that failed
// longest ago, until there are no more. Their lockouts go from the file a few at a time,
// since requests change it meanwhile.
func (l *Lockouts) removeAll(which func(*offender) (remove, more bool)) error {
	var gone []string
	l.mu.Lock()
	for e, more := l.order.Back(), true; e != nil && more; {
		next := e.Prev()
		var remove bool
		if remove, more = which(e.Value.(*offender)); remove {
			gone = l.unlink(e, gone)
		}
		e = next
	}
	l.mu.Unlock()
	for some := range slices.Chunk(gone, sweepAtOnce) {
		if err := l.forget(some); err != nil {
			return err
		}
	}
	return nil
}

// within reports whether the offender's address is of a network. Every address is
// of the zero Prefix.
func (o *offender) within(p netip.Prefix) bool {
	if !p.IsValid() {
		return true
	}
	own, err := netip.ParsePrefix(o.address)
	if a, single := netip.ParseAddr(o.address); single == nil {
		own, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	return err == nil && own.Overlaps(p)
}

// sweep removes addresses that are not locked out and have no recent failure.
func (l *Lockouts) sweep() error {
	now := l.now().UnixMicro()
	old := now - l.rules.Within.Microseconds()
	return l.removeAll(func(o *offender) (remove, more bool) {
		if o.until > now {
			return false, true
		}
		n := len(o.failed)
		remove = n == 0 || o.failed[n-1] <= old
		return remove, remove // those before it failed later
	})
}

// counted returns what an address is counted as. A text that is no address counts
// as itself.
func counted(client string) string {
	a, err := netip.ParseAddr(client)
	if err != nil {
		return strings.Clone(client[:min(len(client), 64)]) // without the rest, which a module made as long as it likes
	}
	return network.Text(network.Own(a))
}
