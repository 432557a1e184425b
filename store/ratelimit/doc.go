// Package ratelimit keeps one token bucket a key over many nodes that do not
// wait for each other.
//
// A node counts what it lets through in a counter that only rises, and reports
// it. The origin merges counters by max, so that reports may be lost, repeated
// or overtake each other, and takes what is new off the key's one true bucket,
// which may go into debt: what was let through too much is repaid before
// anything more is. It answers with a Share: how the bucket stands and who else
// draws on it. Between shares a node spends what is safe to assume its own.
//
// How much that is (see Account.Take):
//
//   - alone on the key, everything that remains;
//   - beside other nodes whose pace the origin knows, what remains less what
//     those will spend before this node can hear of it;
//   - beside nodes that have only just begun, an even part of what remains.
//
// A node that has not heard of a key for a while (FreshFor) takes itself to be
// alone on it: an idle key's whole burst is let through wherever it arrives,
// and a node that is cut off limits on its own. Whatever that overspends
// becomes debt, but for what the bucket has regained by the time the origin
// hears of it: an hour's requests within the limit are no debt.
//
// Nothing here does I/O or reads a clock: times are microseconds, given.
package ratelimit
