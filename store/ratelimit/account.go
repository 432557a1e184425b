package ratelimit

import (
	"encoding/binary"
	"errors"

	"partneredge/wasm/abi"
)

const (
	// FreshFor is how long, in microseconds, a node goes by what a share said of
	// other nodes.
	FreshFor = 2_000_000
	// reportDelay is how long, in microseconds, others may spend before a node
	// hears of it: the wait for a report, both ways over a wide-area link, and
	// some room.
	reportDelay = 400_000
)

// Account is one key's limit as one node knows it. The zero Account is that of
// a key which the node has never seen.
type Account struct {
	Bucket              // the key's bucket as of the last share, less the node's own spending since
	Spent         int64 // the node's counter, which rises by one for each token spent
	From          int64 // where the counter began; what it says below that is of earlier accounts
	Acked         int64 // the counter as of the last share
	Sent          int64 // the counter as of the last report
	SharedAt      int64 // when the last share came, microseconds since the Unix epoch
	Nodes         int64 // nodes that draw on the key, this one among them
	Others        int64 // what the other nodes spend, grains a second
	PaceIsUnknown bool  // as of the last share, another node had only just begun to draw on the key
}

// Urgency says how soon the origin needs a report of an account.
type Urgency int

// Urgencies of a report.
const (
	NoReport   Urgency = iota // there is nothing to report
	ReportSoon                // with the node's next reports
	ReportNow                 // at once
)

// NewAccount returns the account of a key that the node has none of. Its counter
// begins at from, which no earlier account of the key may have counted beyond.
func NewAccount(from int64) Account {
	return Account{Spent: from, From: from, Acked: from, Sent: from}
}

// Take spends one token at now, if that is safe, and reports what is left. Only
// when the answer allows the request has the account changed in a way that must
// be kept.
func (a *Account) Take(perMinute int, now int64) (answer abi.Bucket, report Urgency) {
	limit := clampLimit(int64(perMinute))
	a.Settle(limit, now)
	reserve := a.reserve(limit, now)
	answer.Limit = int(limit)
	if short := reserve + Token - a.left(limit); short <= 0 {
		a.Missing += Token
		a.Spent++
		answer.Allowed = true
		answer.Remaining = int(max(0, a.left(limit)) / Token)
	} else {
		answer.RetryMS = max(1, ceil(ceil(short, limit), 1000))
	}
	answer.ResetMS = ceil(ceil(a.Missing, limit), 1000)
	return answer, a.urgency(answer.Allowed, limit, now)
}

func (a *Account) urgency(allowed bool, limit, now int64) Urgency {
	if !allowed {
		// Shares come in answer to reports, and this node spends nothing to report.
		if now-a.SharedAt >= FreshFor/2 {
			return ReportSoon
		}
		return NoReport
	}
	unsent := (a.Spent - a.Sent) * Token
	if unsent >= max(Token, a.left(limit)/(2*max(1, a.Nodes))) {
		return ReportNow
	}
	if !a.fresh(now) && a.Sent == a.Acked {
		return ReportNow // nobody knows yet that this node draws on the key
	}
	return ReportSoon
}

// reserve returns what the node must leave to others, in grains, of what it
// takes to remain.
func (a *Account) reserve(limit, now int64) int64 {
	if !a.fresh(now) || a.Nodes <= 1 {
		return 0
	}
	// What the node spent since the share counts as a part of its own.
	own := (a.Spent - a.Acked) * Token
	whole := a.left(limit) + own
	if whole <= 0 {
		return 0 // less would make a debt look paid off sooner than it is
	}
	part := whole / a.Nodes
	// While a tenth of the bucket is there, and a whole token, one request is admitted
	// however many nodes there are. Else a small limit over many nodes would never be
	// used up.
	if part < Token && whole >= limit*Token/10 {
		part = min(Token, whole)
	}
	even := whole - part
	// The pace is known soon after: whoever has spent more since has reported it, and a share
	// follows. Where that is lost, the others' part is too small until the next one.
	if a.PaceIsUnknown && now-a.SharedAt < learnFor {
		return even
	}
	return min(even, a.Others*(reportDelay/1000)/1000)
}

// fresh reports whether the last share still says something of other nodes.
func (a *Account) fresh(now int64) bool {
	return a.SharedAt != 0 && now-a.SharedAt >= 0 && now-a.SharedAt < FreshFor
}

// Report describes one key's spending on a node to the origin.
type Report struct {
	Limit   int64 `json:"l"`           // tokens a minute
	Spent   int64 `json:"c"`           // the node's counter
	From    int64 `json:"f,omitempty"` // where it began
	Acked   int64 `json:"a"`           // the counter as the origin confirmed it last
	Missing int64 `json:"m"`           // grains missing as of that confirmation, settled to now
	// Late is set when the node has had no share for so long that what it spent
	// meanwhile does not count as spent now. Owed is what of it, in grains, the
	// node's own account has not regained.
	Late bool  `json:"t,omitempty"`
	Owed int64 `json:"w,omitempty"`
}

// Report returns what to report of the account at now, and notes that it was.
func (a *Account) Report(perMinute int, now int64) Report {
	limit := clampLimit(int64(perMinute))
	a.Settle(limit, now)
	a.Sent = a.Spent
	own := (a.Spent - a.Acked) * Token
	r := Report{
		Limit: limit, Spent: a.Spent, From: a.From, Acked: a.Acked,
		Missing: max(0, a.Missing-own),
	}
	if regained := own - a.Missing; now-a.SharedAt >= activeFor && regained > limit*reportDelay {
		r.Late, r.Owed = true, a.Missing
	}
	return r
}

// Apply applies a share. One that a later share overtook has no effect.
//
// The origin hears of spending later than it was, so by its account a bucket
// that was full has regained less. The account of a node that is alone on the
// key is exact, and stands against a share that differs by no more than that.
func (a *Account) Apply(s Share, perMinute int, now int64) {
	if s.Spent < a.Acked {
		return
	}
	limit := clampLimit(int64(perMinute))
	a.Settle(limit, now)
	missing := s.Missing + (a.Spent-s.Spent)*Token
	if s.Spent > a.Spent {
		// The node's file lost the end of its count; the origin did not.
		a.Spent, a.Sent = s.Spent, s.Spent
		missing = s.Missing
	} else if late := missing - a.Missing; s.Nodes <= 1 && 0 < late && late <= limit*reportDelay {
		missing = a.Missing
	}
	a.Acked = s.Spent
	a.Bucket = Bucket{Missing: missing, At: now}
	a.SharedAt, a.Nodes, a.Others, a.PaceIsUnknown = now, s.Nodes, s.Others, s.PaceIsUnknown
}

// Idle reports whether the account says no more than a new one would, but for
// its counter: the bucket is full at now, and the origin knows the whole count.
func (a *Account) Idle(perMinute int, now int64) bool {
	settled := a.Bucket
	settled.Settle(clampLimit(int64(perMinute)), now)
	return settled.Missing == 0 && a.Spent == a.Acked
}

// ErrAccount is the error of bytes that are no account.
var ErrAccount = errors.New("read rate-limit account: malformed")

// AccountSize is the number of bytes that Append adds.
const AccountSize = 2 + 9*8

// Append adds the account to b: u8 version 2, u8 pace is unknown, then i64
// little endian missing, at, spent, acked, sent, shared at, nodes, others, from.
func (a *Account) Append(b []byte) []byte {
	var unknown byte
	if a.PaceIsUnknown {
		unknown = 1
	}
	b = append(b, 2, unknown)
	for _, v := range [...]int64{a.Missing, a.At, a.Spent, a.Acked, a.Sent, a.SharedAt, a.Nodes, a.Others, a.From} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// Parse reads what Append wrote. Version 1 had no from. T is string or []byte,
// whichever the store keeps.
func Parse[T string | []byte](b T) (Account, error) {
	var v [9]int64
	numbers := len(v)
	if len(b) > 0 && b[0] == 1 {
		numbers--
	}
	if len(b) != 2+8*numbers || b[0] < 1 || b[0] > 2 || b[1] > 1 {
		return Account{}, ErrAccount
	}
	for i := range numbers {
		for j := range 8 {
			v[i] |= int64(b[2+8*i+j]) << (8 * j)
		}
	}
	return Account{
		Bucket: Bucket{Missing: v[0], At: v[1]}, Spent: v[2], Acked: v[3], Sent: v[4],
		SharedAt: v[5], Nodes: v[6], Others: v[7], From: v[8], PaceIsUnknown: b[1] == 1,
	}, nil
}
