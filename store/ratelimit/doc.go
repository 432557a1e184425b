// Package ratelimit keeps one token bucket a key over many nodes that do not
// wait for each other.
//
// A node counts what it admits in a counter that only rises, and reports it. The
// origin merges counters by max, so reports may be lost, repeated or overtake
// each other. It takes what is new off the key's one bucket, which may go into
// debt: what was admitted too much is repaid before anything more is admitted.
// It answers with a Share: what is missing from the bucket, and who else draws
// on it. Between shares a node spends what is safe to take for its own:
//
//   - alone on the key, everything that remains;
//   - beside nodes whose pace the origin knows, what remains less what those
//     will spend before this node can hear of it;
//   - beside nodes that have only just begun, an even part of what remains for half
//     a second.
//
// A node that has had no share of a key for a while (FreshFor) takes itself to
// be alone on it. So an idle key's whole burst is admitted wherever it arrives,
// and a node that is cut off limits on its own. What that overspends becomes
// debt, less what the bucket has regained by the time the origin hears of it: an
// hour's requests within the limit are no debt.
//
// Nothing here does I/O or reads a clock: times are microseconds, given by the
// caller.
package ratelimit
