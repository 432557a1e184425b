// Package webhook delivers events to the endpoints that partners registered,
// and lets no endpoint keep another waiting.
//
// Deliveries live in the database, queue and log at once; what is in memory is
// a bounded part of it, held on a lease, one queue for each subscription:
//
//	Taker, Claim ──> queue ──> ring ──> try ──> outcomes ──> Finish
//	 (database)    (one each)  (two)   (HTTP)   (batches)   (database)
//
// A queue is in a ring while it has something that may start. The rings are
// served in turn, one delivery a queue, so a long queue gets no more than a
// short one. One ring is for endpoints that answer, the other for those that
// fail or are slow; each has a budget of its own, and a try that has not been
// answered after a second is moved to the slow one's. So what an endpoint does
// can use up the budget of its like, never that of the healthy.
//
// An endpoint that fails is tried less: fewer tries at a time, then one at a
// time with pauses between. But no delivery waits for that longer than HoldMost
// past its own time.
//
// Everything under Sender.mu is plain data and takes microseconds; what waits
// (the network, the database) is in the loops of sender.go, feed.go and
// results.go, and in one goroutine for each try.
package webhook
