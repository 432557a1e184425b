package ratelimit

import (
	"encoding/binary"
	"errors"

	"partneredge/wasm/abi"
)

const (
	// FreshFor is for how long, in microseconds, a node believes what a share
	// said of other nodes.
	FreshFor = 2_000_000
	// blind is how long, in microseconds, others may spend before a node hears
	// of it: a report's wait, both ways over a wide-area link, with room.
	blind = 400_000
)

// Account is one key's limit as one node knows it. The zero Account is that of
// a key which the node has never seen.
type Account struct {
	Bucket         // the key's bucket as of the last share, less the node's own spending since
	Spent    int64 // the node's counter, which rises by one for each token let through
	From     int64 // where the counter began; what it says below that is of accounts before
	Acked    int64 // of these, what the last share takes in
	Sent     int64 // of these, what the last report told
	SharedAt int64 // when the last share came, microseconds since the Unix epoch
	Nodes    int64 // that draw on the key, this one among them
	Others   int64 // what the other nodes spend, grains a second
	Young    bool  // another node has begun so lately that its pace is unknown
}

// Telling is when the origin is to have a report of an account.
type Telling int

// When to report.
const (
	Nothing Telling = iota // there is no need
	Soon                   // with the next turn's reports
	Now                    // at once
)

// Take spends one token at now if that is safe. It tells how things stand, and
// when to report. A take that was refused leaves nothing to be written down.
func (a *Account) Take(perMinute int, now int64) (answer abi.Bucket, tell Telling) {
	limit := clampLimit(perMinute)
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
	return answer, a.telling(answer.Allowed, limit, now)
}

func (a *Account) telling(allowed bool, limit, now int64) Telling {
	if !allowed {
		// A node that lets nothing through hears nothing, so it asks.
		if now-a.SharedAt >= FreshFor/2 {
			return Soon
		}
		return Nothing
	}
	unsent := (a.Spent - a.Sent) * Token
	if unsent >= max(Token, a.left(limit)/(2*max(1, a.Nodes))) {
		return Now
	}
	if !a.fresh(now) && a.Sent == a.Acked {
		return Now // nobody knows yet that this node draws on the key
	}
	return Soon
}

// reserve is what the node must leave for others, in grains, of what it
// believes to remain.
func (a *Account) reserve(limit, now int64) int64 {
	if !a.fresh(now) || a.Nodes <= 1 {
		return 0
	}
	// The node's own part counts what it spent since the share.
	own := (a.Spent - a.Acked) * Token
	whole := a.left(limit) + own
	part := whole / a.Nodes
	// However many nodes there are: while a tenth of the bucket is there, one
	// request goes through, else a small limit over many nodes would never be
	// used up.
	if part < Token && whole >= limit*Token/10 {
		part = Token
	}
	even := whole - part
	if a.Young {
		return even
	}
	return min(even, a.Others*(blind/1000)/1000)
}

// fresh tells whether the last share still says something of other nodes.
func (a *Account) fresh(now int64) bool {
	return a.SharedAt != 0 && now-a.SharedAt >= 0 && now-a.SharedAt < FreshFor
}

// Report is what a node tells the origin of one key.
type Report struct {
	Limit   int64 `json:"l"`           // tokens a minute
	Spent   int64 `json:"c"`           // the node's counter
	From    int64 `json:"f,omitempty"` // where it began
	Acked   int64 `json:"a"`           // what of it the origin confirmed last
	Missing int64 `json:"m"`           // grains missing as of that confirmation, settled to now
	// Late says that the origin has not been heard for so long that what was
	// spent meanwhile does not count as spent now. Owed is what of it the node's
	// own account has not regained, in grains.
	Late bool  `json:"t,omitempty"`
	Owed int64 `json:"w,omitempty"`
}

// Report tells how the account stands at now.
func (a *Account) Report(perMinute int, now int64) Report {
	limit := clampLimit(perMinute)
	a.Settle(limit, now)
	a.Sent = a.Spent
	own := (a.Spent - a.Acked) * Token
	r := Report{
		Limit: limit, Spent: a.Spent, From: a.From, Acked: a.Acked,
		Missing: max(0, a.Missing-own),
	}
	if regained := own - a.Missing; now-a.SharedAt >= activeFor && regained > limit*blind {
		r.Late, r.Owed = true, a.Missing
	}
	return r
}

// Apply takes in a share. One that was overtaken by a later one does nothing.
//
// The origin hears of spending later than it was, so a bucket that was full has
// regained less by its account. To a node that is alone on the key its own
// account is exact, and that much less is not believed.
func (a *Account) Apply(s Share, perMinute int, now int64) {
	if s.Spent < a.Acked {
		return
	}
	limit := clampLimit(perMinute)
	a.Settle(limit, now)
	missing := s.Missing + (a.Spent-s.Spent)*Token
	if s.Spent > a.Spent {
		// The node's file lost the end of its count; the origin did not.
		a.Spent, a.Sent = s.Spent, s.Spent
		missing = s.Missing
	} else if late := missing - a.Missing; s.Nodes <= 1 && 0 < late && late <= limit*blind {
		missing = a.Missing
	}
	a.Acked = s.Spent
	a.Bucket = Bucket{Missing: missing, At: now}
	a.SharedAt, a.Nodes, a.Others, a.Young = now, s.Nodes, s.Others, s.Young
}

// Begun is an account of a key that the node has no account of, whose counter
// begins at from: at least where any account of the key that was given up ended.
func Begun(from int64) Account {
	return Account{Spent: from, From: from, Acked: from, Sent: from}
}

// Idle tells whether the account says no more than the zero Account would, but
// for its counter: the bucket is full at now and all is reported.
func (a *Account) Idle(perMinute int, now int64) bool {
	settled := a.Bucket
	settled.Settle(clampLimit(perMinute), now)
	return settled.Missing == 0 && a.Spent == a.Acked
}

// ErrAccount says that bytes are no account.
var ErrAccount = errors.New("read rate-limit account: malformed")

// AccountSize is how many bytes Append adds.
const AccountSize = 2 + 9*8

// Append adds the account to b: u8 version 2, u8 young, then i64 little endian
// missing, at, spent, acked, sent, shared at, nodes, others, from.
func (a *Account) Append(b []byte) []byte {
	var young byte
	if a.Young {
		young = 1
	}
	b = append(b, 2, young)
	for _, v := range [...]int64{a.Missing, a.At, a.Spent, a.Acked, a.Sent, a.SharedAt, a.Nodes, a.Others, a.From} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// Parse reads what Append wrote, or wrote when there was no from (version 1). T
// is string or []byte, whichever the store keeps.
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
		SharedAt: v[5], Nodes: v[6], Others: v[7], From: v[8], Young: b[1] == 1,
	}, nil
}
