package ratelimit

// Bucket is a token bucket of limit tokens that refills at limit tokens a
// minute. Its unit is a grain, 1/60 000 000 of a token: a bucket regains exactly
// limit grains a microsecond, so nothing is ever rounded.
//
// What is missing is kept, not what is left: a key whose limit changes keeps its
// spending, and the zero Bucket is full.
type Bucket struct {
	Missing int64 // grains below full; above limit*Token when in debt
	At      int64 // microseconds since the Unix epoch at which Missing was right
}

// Token is one token in grains.
const Token = 60_000_000

// MaxLimit is the highest limit, in tokens a minute. It keeps all products
// within 63 bits.
const MaxLimit = 1_000_000

// maxDebt is the most debt, in buckets. It keeps sums within 63 bits, whatever a
// counter claims.
const maxDebt = 1000

// Settle moves the bucket on to now. A clock that was put back regains nothing,
// and counts from there on.
func (b *Bucket) Settle(limit, now int64) {
	if elapsed := now - b.At; elapsed > 0 {
		// A longer time than it takes to fill up could overflow.
		if elapsed > b.Missing/limit {
			b.Missing = 0
		} else {
			b.Missing -= elapsed * limit
		}
	}
	b.At = now
}

// spend takes grains off, into debt if need be.
func (b *Bucket) spend(limit, grains int64) {
	b.Missing = min(b.Missing+grains, maxDebt*limit*Token)
}

// left returns what remains, in grains; it is negative in debt.
func (b *Bucket) left(limit int64) int64 { return limit*Token - b.Missing }

func clampLimit(limit int64) int64 { return min(max(limit, 1), MaxLimit) }

func ceil(a, b int64) int64 { return (a + b - 1) / b }
