// Package attempts rate-limits wrong admin tokens by network. A network may present a
// number of them at once, and one more every few seconds. Beyond that its tokens are
// refused unread, except those that it has presented before and that were right, so a
// guesser keeps nobody in the same network out.
package attempts

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"partneredge/wasm/network"
)

const (
	// Burst is the number of wrong tokens that a network may present at once.
	Burst = 20
	// every is the time after which it may present one more.
	every = 6 * time.Second
	// ReportEvery is the least time between two reports of one network.
	ReportEvery = time.Minute
	// maxReports is the number of reports that name a network in each ReportEvery.
	maxReports = 10
	// maxNetworks bounds the networks that are told apart. Those beyond are told apart by
	// the organization's network alone, of which there may be as many; the rest count as
	// one.
	maxNetworks = 1000
	// maxRight bounds the tokens that are remembered as right; one more forgets all.
	maxRight = 1000
)

// Limit counts wrong tokens by network: an IPv4 address, or a /64 of IPv6. Where very many
// are wrong, further ones count as a /24 or a /48, so that whoever has one of those keeps
// nobody else out.
type Limit struct {
	burst int
	now   func() time.Time

	mu       sync.Mutex
	networks map[netip.Prefix]*count
	others   *count // those for which there is no room; its wrong ones have those that were forgotten, too
	right    map[sighting]struct{}
	reports  *rate.Limiter // of reports that name a network
}

type count struct {
	bucket   *rate.Limiter
	wrong    int        // since the last report
	client   netip.Addr // the last that was wrong
	reported time.Time
}

// Report is a number of wrong tokens of one network since its last report.
type Report struct {
	Client netip.Addr // the last of the network that presented one
	Tokens int
}

// sighting is a token that was right, and where it came from.
type sighting struct {
	from  netip.Prefix
	token [32]byte
}

// New returns a Limit. burst is how many wrong tokens a network may present at once.
func New(burst int, now func() time.Time) *Limit {
	l := &Limit{burst: burst, now: now, networks: make(map[netip.Prefix]*count), right: make(map[sighting]struct{})}
	l.others, l.reports = l.newCount(), rate.NewLimiter(rate.Every(ReportEvery/maxReports), maxReports)
	return l
}

func (l *Limit) newCount() *count {
	return &count{bucket: rate.NewLimiter(rate.Every(every), l.burst)}
}

// Wait returns for how long a token, given by its SHA-256, is not looked at when it
// comes from client; 0: it is looked at.
func (l *Limit) Wait(client netip.Addr, token [32]byte) time.Duration {
	if l.WasRight(client, token) {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, now := l.countOf(client).bucket, l.now()
	reserved := bucket.ReserveN(now, 1)
	defer reserved.CancelAt(now) // only Wrong spends
	return reserved.DelayFrom(now)
}

// WasRight reports whether a token was right before from client's network, as far as is
// remembered.
func (l *Limit) WasRight(client netip.Addr, token [32]byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.right[sighting{network.Own(client), token}]
	return known
}

// Right notes a token that was looked at and is right.
func (l *Limit) Right(client netip.Addr, token [32]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.right) >= maxRight {
		clear(l.right)
	}
	l.right[sighting{network.Own(client), token}] = struct{}{}
}

// Wrong counts a token that was looked at and is wrong. It returns the number of wrong
// tokens to report of the client's network at once: those of a network that was not
// reported for ReportEvery, as long as maxReports allows. 0: Reports returns them later.
func (l *Limit) Wrong(client netip.Addr) (report int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one, now := l.countOf(client), l.now()
	one.bucket.AllowN(now, 1)
	one.wrong++
	one.client = client
	if one == l.others || now.Sub(one.reported) < ReportEvery || !l.reports.AllowN(now, 1) {
		return 0
	}
	report, one.wrong, one.reported = one.wrong, 0, now
	return report
}

// Reports returns the wrong tokens that were not reported yet: by network, those with the
// most first, as long as maxReports allows, and the sum of all others. Called once in each
// ReportEvery, it reports every wrong token exactly once.
func (l *Limit) Reports() (named []Report, others int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	var guessing []*count
	for _, one := range l.networks {
		if one.wrong > 0 {
			guessing = append(guessing, one)
		}
	}
	slices.SortFunc(guessing, func(a, b *count) int {
		return cmp.Or(cmp.Compare(b.wrong, a.wrong), a.client.Compare(b.client))
	})
	others, l.others.wrong = l.others.wrong, 0
	for _, one := range guessing {
		if l.reports.AllowN(now, 1) {
			named = append(named, Report{one.client, one.wrong})
			one.reported = now
		} else {
			others += one.wrong
		}
		one.wrong = 0
	}
	return named, others
}

// countOf returns the count of a client's network.
func (l *Limit) countOf(client netip.Addr) *count {
	own, site := network.Own(client), network.Site(client)
	if one := l.networks[own]; one != nil {
		return one
	}
	if len(l.networks) >= maxNetworks {
		now := l.now()
		for p, one := range l.networks {
			if one.bucket.TokensAt(now) >= float64(l.burst) && now.Sub(one.reported) >= ReportEvery {
				l.others.wrong += one.wrong
				delete(l.networks, p)
			}
		}
	}
	switch {
	case len(l.networks) < maxNetworks:
		l.networks[own] = l.newCount()
		return l.networks[own]
	case l.networks[site] == nil && len(l.networks) < 2*maxNetworks:
		l.networks[site] = l.newCount()
	}
	return cmp.Or(l.networks[site], l.others)
}
