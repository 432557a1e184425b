// Package webhook delivers events to the endpoints that partners registered,
// and lets no endpoint keep another waiting.
//
// The database is queue and log of deliveries at once. A bounded part of it is in
// memory, held on a lease, in one queue for each subscription:
//
//	Claimer, claim ──> queue ──> ready list ──> try ──> outcomes ──> record
//	 (database)    (one each)  (one a lane)  (HTTP)   (batches)   (database)
//
// A queue is in a lane's ready list while a try of it may start. The ready lists
// are served in rotation, one delivery a queue, so a long queue gets no more than
// a short one. One lane is for endpoints that answer, the other for those that
// fail or are slow; each has a budget of its own, and a try without an answer
// after a second moves to the slow lane's. So an endpoint can use up the budget
// of endpoints like it, never that of healthy ones.
//
// An endpoint that fails gets fewer tries at a time, and then one at a time as a
// probe, with pauses between. But no delivery waits for that longer than HoldMost
// past its own time.
//
// Everything under Sender.mu is plain data and takes microseconds. What waits for
// the network or the database is in the loops of claim.go, endpoint.go and
// outcome.go, and in the workers of dispatch.go.
package webhook
