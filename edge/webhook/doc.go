// Package webhook delivers events to the endpoints that partners registered,
// and lets no endpoint keep another waiting.
//
// The database is queue and log of deliveries at once. A bounded part of it is in
// memory, held on a lease, in one queue for each subscription:
//
//	Claimer, claim ──> queue ──> ready list ──> try ──> outcomes ──> record
//	 (database)    (one each)  (one a lane)  (HTTP)   (batches)   (database)
//
// A queue waits in a lane while a try of it may start. Lanes are served in rotation
// over accounts and over their queues, one delivery a queue, so a long queue gets no more
// than a short one. Endpoints that answer, endpoints that have yet to show that they do,
// and endpoints that hang have a lane and a budget of tries each. A fourth lane, for tries
// beyond an endpoint's limit, shares the last budget. A try without an answer after a second
// leaves its budget for one of its own kind. So an endpoint can use up the budget of
// endpoints like it, never that of healthy ones.
//
// An endpoint that fails gets fewer tries at a time, and then one at a time as a
// probe, with pauses between. But no delivery waits for that longer than HoldMost
// past its own time, unless endpoints that hang have used up half of their budget.
//
// Everything under Sender.mu is plain data and takes microseconds. What waits for
// the network or the database is in the loops of claim.go, endpoint.go and
// outcome.go, and in the workers of dispatch.go.
package webhook
