// Package wire is what a node and the origin say to each other over NATS.
//
// Bodies are JSON. Every message carries the version its sender speaks; a
// receiver takes its own and the one before and after, and leaves alone the
// fields that it does not know.
//
//	subject                        direction  what
//	edge.v1.<node>.key             request    KeyRequest -> KeyReply
//	edge.v1.<node>.view            request    ViewRequest -> ViewReply
//	edge.v1.<node>.changes         request    ChangesRequest -> ChangesReply
//	edge.v1.<node>.leads           request    LeadsRequest -> LeadsReply
//	edge.v1.<node>.subscribe       request    SubscribeRequest -> SubscribeReply
//	edge.v1.<node>.revoke          request    RevokeRequest -> RevokeReply
//	edge.v1.<node>.blob            request    BlobRequest -> BlobReply
//	edge.v1.<node>.signatures      request    SignaturesRequest -> SignaturesReply
//	edge.v1.<node>.spend           message    Spend, node to origin
//	edge.v1.<node>.status          message    Status, node to origin
//	edge.v1.changes                message    Changed, origin to every node
//	edge.v1.wake                   message    Wake, origin to the other origins
//	edge.v1.to.<node>.share        message    Share, origin to one node
//	edge.v1.to.<node>.release      message    Order, origin to one node
//
// <node> is the node's id; its credentials let a node publish under its own id
// only, and read edge.v1.changes, edge.v1.to.<its id>.> and its own inbox.
package wire

import (
	"time"

	"partneredge/store"
	"partneredge/store/ratelimit"
)

// Version that this code speaks.
const Version = 1

// Understood tells whether a message of version v may be read: one that says
// none, or one further away than the next, may not.
func Understood(v int) bool { return v >= 1 && v >= Version-1 && v <= Version+1 }

// MaxPayload is what the largest message may hold, in bytes: an answer with 100
// firings of 16 KiB each, with room. A NATS cluster of one's own needs at least
// this as its max_payload.
const MaxPayload = 4 << 20

// Subjects.
const (
	Prefix    = "edge.v1."
	Changes   = Prefix + "changes" // Changed
	WakeUp    = Prefix + "wake"    // Wake
	AnyNode   = Prefix + "*."      // + verb: what the origin listens to
	ToNode    = Prefix + "to."     // + node id + verb
	Queue     = "origin"           // queue group: one origin process takes a message
	InboxBase = "_INBOX_"          // + node id: the node's own reply subjects
)

// Verbs, the last part of a subject.
const (
	VerbKey        = "key"
	VerbView       = "view"
	VerbChanges    = "changes"
	VerbLeads      = "leads"
	VerbSubscribe  = "subscribe"
	VerbRevoke     = "revoke"
	VerbBlob       = "blob"
	VerbSignatures = "signatures"
	VerbSpend      = "spend"
	VerbStatus     = "status"
	VerbShare      = "share"
	VerbRelease    = "release"
)

// Subject of a node's verb, such as edge.v1.node_01….key.
func Subject(node, verb string) string { return Prefix + node + "." + verb }

// Inbox is the prefix of the reply subjects of a node. The origin answers
// nowhere else, so that no node can have it speak to another.
func Inbox(node string) string { return InboxBase + node }

// Failure is why a request was not done. It maps to one kind of error.
type Failure string

// Failures. "" is none.
const (
	NotFound    Failure = "not_found"
	Limit       Failure = "limit"
	Unavailable Failure = "unavailable"
	Invalid     Failure = "invalid"
	Internal    Failure = "internal"
	// NotEnrolled says nothing of the request: the origin does not know the node,
	// or has revoked it.
	NotEnrolled Failure = "not_enrolled"
)

// Head is part of every message.
type Head struct {
	V int `json:"v"`
	// Failure of a reply; the other fields are then empty.
	Failure Failure `json:"failure,omitempty"`
	// Trace of a request that is traced: its traceparent (W3C Trace Context).
	Trace string `json:"trace,omitempty"`
}

// Header of the message.
func (h *Head) Header() *Head { return h }

// Message is a pointer to any of the messages below.
type Message interface{ Header() *Head }

// KeyRequest asks for the key with this SHA-256.
type KeyRequest struct {
	Head
	Hash []byte `json:"hash,omitempty"`
}

// KeyReply holds the key; NotFound when there is none. Seq is the last change
// that the record takes in.
type KeyReply struct {
	Head
	Key *store.Key `json:"key,omitempty"`
	Seq int64      `json:"seq"`
}

// ViewRequest asks for what an account shows. Kind is profile, insights or
// firings. Limit 0 asks for as many as one answer can hold (insights 50,
// firings 100).
type ViewRequest struct {
	Head
	AccountID string           `json:"account_id"`
	Kind      store.ChangeKind `json:"kind"`
	Since     time.Time        `json:"since,omitzero"`  // insights: created after
	Before    time.Time        `json:"before,omitzero"` // firings: triggered before
	Limit     int              `json:"limit,omitempty"`
}

// ViewReply holds what was asked for, newest first.
type ViewReply struct {
	Head
	Account  *store.Account  `json:"account,omitempty"`
	Insights []store.Insight `json:"insights,omitempty"`
	Firings  []store.Firing  `json:"firings,omitempty"`
	// History tells whether the account ever had an insight.
	History bool `json:"history,omitempty"`
	// More tells whether there are older ones than the last.
	More bool  `json:"more,omitempty"`
	Seq  int64 `json:"seq"`
}

// ChangesRequest asks for the changes after Since.
type ChangesRequest struct {
	Head
	Since int64 `json:"since"`
	Limit int   `json:"limit,omitempty"` // 0: 1000
}

// ChangesReply holds them in order. Reset says that some are no longer known:
// the node then trusts nothing it holds before it has asked again.
type ChangesReply struct {
	Head
	Changes []store.Change `json:"changes,omitempty"`
	Latest  int64          `json:"latest"` // the origin's last
	Reset   bool           `json:"reset,omitempty"`
}

// Changed is pushed after each commit, and with no changes every second, so
// that a node learns of a gap.
type Changed struct {
	Head
	Changes []store.Change `json:"changes,omitempty"`
	Latest  int64          `json:"latest"`
}

// Wake says that deliveries are due which the sender of the process that wrote
// them did not take. From names that process, which needs no waking.
type Wake struct {
	Head
	From string `json:"from"`
}

// LeadsRequest hands leads over. Each is idempotent by id.
type LeadsRequest struct {
	Head
	Leads []store.Lead `json:"leads"`
}

// LeadsReply names the leads that are committed at the origin, and those it can
// never take, with why.
type LeadsReply struct {
	Head
	Committed []string          `json:"committed,omitempty"`
	Rejected  map[string]string `json:"rejected,omitempty"`
}

// SubscribeRequest makes a subscription. Idempotent by id.
type SubscribeRequest struct {
	Head
	Subscription store.Subscription `json:"subscription"`
}

// SubscribeReply: Reason names the rule that refused the target. Limit when the
// account has its most.
type SubscribeReply struct {
	Head
	Reason string `json:"reason,omitempty"`
}

// RevokeRequest revokes a subscription of the account.
type RevokeRequest struct {
	Head
	AccountID string `json:"account_id"`
	ID        string `json:"id"`
}

// RevokeReply: NotFound when the account has no such subscription.
type RevokeReply struct {
	Head
	Already bool `json:"already,omitempty"`
}

// MaxSpendKeys is the most keys that one Spend or Share may hold.
const MaxSpendKeys = 10_000

// Spend reports what a node has let through: by key one counter that only
// rises, merged by max at the origin. Every origin process takes it.
type Spend struct {
	Head
	Boot string                      `json:"boot"` // names this life of the counters, at most 64 bytes
	Keys map[string]ratelimit.Report `json:"keys"` // by key id
}

// Share tells a node how its keys' buckets stand: at once in answer to a Spend,
// and soon after another node has drawn on the same key. Boot is that of the
// reports it takes in; a share for another life means nothing.
type Share struct {
	Head
	Boot string                     `json:"boot"`
	Keys map[string]ratelimit.Share `json:"keys"` // by key id
}

// Status is how a node is, every few seconds.
type Status struct {
	Head
	Region    string `json:"region"`
	Release   string `json:"release"`
	Seq       int64  `json:"seq"`       // last change it has taken in
	Outbox    int    `json:"outbox"`    // leads waiting
	HotKeys   int    `json:"hot_keys"`  // key records held
	Sandboxes int    `json:"sandboxes"` // alive

	Traffic *Traffic `json:"traffic,omitempty"`

	// Running is the release that answers, and Candidate the one that is tried
	// beside it, or was; nil where there is none, or the node is too old to say.
	Running   *ReleaseStatus `json:"running,omitempty"`
	Candidate *ReleaseStatus `json:"candidate,omitempty"`
}
