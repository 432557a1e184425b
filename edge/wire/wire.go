// Package wire defines the messages that nodes and the origin exchange over
// NATS: their subjects, their fields and their versions.
//
// Bodies are JSON. Every message carries the version that its sender speaks. A
// receiver accepts its own version, the one before and the one after, and
// ignores fields that it does not know.
//
// What a node asks for on behalf of a partner carries the SHA-256 of the partner's
// key. A node has it of the keys that it was shown and of no others, so it is the
// proof that the partner has been to this node. Version 1 carried none.
//
//	subject                        direction  what
//	edge.v1.<node>.key             request    KeyRequest -> KeyReply
//	edge.v1.<node>.keys            request    KeysRequest -> KeysReply
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
//	edge.v1.to.<node>.lockouts     request    LockoutsRequest -> LockoutsReply, origin to one node
//	edge.v1.to.<node>.requests     request    RequestsRequest -> RequestsReply, origin to one node
//
// <node> is the node's address: its id, or region-<region>.<id>. A node's credentials let
// it publish under its own address only, and subscribe to edge.v1.changes,
// edge.v1.to.<its address>.> and its inbox. A node replies to a request of the origin
// below its own subject of that kind, where no other node can.
package wire

import (
	"encoding/json"
	"time"

	"partneredge/store"
	"partneredge/store/ratelimit"
	"partneredge/wasm/abi"
)

// Version is the version of messages that this program speaks.
const Version = 2

// KeyHashes is the version since which requests carry the hash of the key in whose
// name they are made.
const KeyHashes = 2

// understood reports whether a message of version v may be read: v must be set
// and at most one away from Version.
func understood(v int) bool { return v >= 1 && v >= Version-1 && v <= Version+1 }

// MaxPayload bounds a message, in bytes. The largest is a reply with 100 firings
// of 16 KiB each. An external NATS cluster needs at least this as max_payload.
const MaxPayload = 4 << 20

// Subjects.
const (
	Prefix    = "edge.v1."
	Changes   = Prefix + "changes" // Changed
	WakeUp    = Prefix + "wake"    // Wake
	AnyNode   = Prefix + "*."      // + verb: what the origin subscribes to
	AnyRegion = Prefix + "*.*."    // + verb: likewise, of nodes with regional addresses
	ToNode    = Prefix + "to."     // + address + verb
	Queue     = "origin"           // queue group: one origin process takes a message
	InboxBase = "_INBOX_"          // + address: the node's own reply subjects
)

// Verbs: the last part of a subject, which names the kind of message. NodeVerbs has those
// that nodes publish.
const (
	VerbKey        = "key"
	VerbKeys       = "keys"
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
	VerbLockouts   = "lockouts"
	VerbRequests   = "requests"
)

// NodeVerbs returns the verbs under which nodes publish below their own subject: what
// they ask of the origin, what they report, and what they reply to the origin's requests.
func NodeVerbs() []string {
	return []string{
		VerbKey, VerbKeys, VerbView, VerbChanges, VerbLeads, VerbSubscribe, VerbRevoke, VerbBlob, VerbSignatures,
		VerbSpend, VerbStatus,
		VerbLockouts, VerbRequests,
	}
}

// Subject returns the subject of a node's messages of one kind, such as
// edge.v1.node_01….key.
func Subject(address, verb string) string { return Prefix + address + "." + verb }

// Inbox returns the prefix of a node's reply subjects. The origin replies to no
// other subject, so that no node can make it send a message to another node.
func Inbox(address string) string { return InboxBase + address }

// Failure says why a request failed. Each maps to one kind of error.
type Failure string

// Failures; "" means none.
const (
	NotFound    Failure = "not_found"
	Limit       Failure = "limit"
	Unavailable Failure = "unavailable"
	Invalid     Failure = "invalid"
	Internal    Failure = "internal"
	// Refused means that the key whose hash the request carries does not grant it,
	// or that it carries none. Version 1 reads it as Unavailable.
	Refused Failure = "refused"
	// NotEnrolled means that the origin does not know the node or has revoked it.
	NotEnrolled Failure = "not_enrolled"
)

// Head is the header of every message.
type Head struct {
	V int `json:"v"`
	// Failure is set in the reply to a request that failed, whose other fields are
	// then empty.
	Failure Failure `json:"failure,omitempty"`
	// Trace is the traceparent (W3C Trace Context) of a traced request.
	Trace string `json:"trace,omitempty"`
}

// Header returns the message's header, which the caller may change.
func (h *Head) Header() *Head { return h }

// Message is a pointer to any message of this package.
type Message interface{ Header() *Head }

// MaxMoreKeys is the most keys for which one KeyRequest asks beside the first.
const MaxMoreKeys = 63

// KeyRequest asks for the key whose SHA-256 is Hash. Bare says that the reply need not
// repeat the hash, which an origin that does not know the field does. More are the hashes
// of further keys; an origin that does not know the field answers for Hash alone. Partial
// says that the node reads KeyReply.Unread.
type KeyRequest struct {
	Head
	Hash    []byte   `json:"hash,omitempty"`
	Bare    bool     `json:"bare,omitempty"`
	More    [][]byte `json:"more,omitempty"`
	Partial bool     `json:"partial,omitempty"`
}

// KeyReply holds the key; the failure is NotFound if there is none. Seq is the
// last change that the record includes. To a Bare request it is without the key's hash,
// so that who overhears it learns nothing that proves a key.
//
// To a request for More it holds Keys alone: that of Hash and the further ones in the
// order of their hashes, which it leaves out, and nil in the place of a key that there is
// not. Unread are the places in Keys, from 0, of keys that the origin could not read: they
// are neither known nor unknown. To a node that does not read Unread one such key fails
// the whole request.
type KeyReply struct {
	Head
	Key    *store.Key   `json:"key,omitempty"`
	Keys   []*store.Key `json:"keys,omitempty"`
	Unread []int        `json:"unread,omitempty"`
	Seq    int64        `json:"seq"`
}

// The most items of one reply, which are also those that a node holds.
const (
	MaxInsights = abi.MaxInsights
	MaxFirings  = abi.MaxFirings
)

// ViewRequest asks for one view of an account. Kind is profile, insights or
// firings. Limit 0 asks for as many items as one reply can hold.
type ViewRequest struct {
	Head
	AccountID string           `json:"account_id"`
	KeyHash   []byte           `json:"key_hash,omitempty"` // of a key of the account with the view's scope
	Kind      store.ChangeKind `json:"kind"`
	Since     time.Time        `json:"since,omitzero"`  // insights: created after
	Before    time.Time        `json:"before,omitzero"` // firings: triggered before
	Limit     int              `json:"limit,omitempty"`
}

// ViewReply holds the view that was asked for, newest first.
type ViewReply struct {
	Head
	Account  *store.Account  `json:"account,omitempty"`
	Insights []store.Insight `json:"insights,omitempty"`
	Firings  []store.Firing  `json:"firings,omitempty"`
	// History reports whether the account ever had an insight.
	History bool `json:"history,omitempty"`
	// More reports whether there are firings older than the last one here.
	More bool `json:"more,omitempty"`
	// Seq is the last change that the view includes.
	Seq int64 `json:"seq"`
}

// MaxChanges is the most changes in one message of the origin.
const MaxChanges = 5000

// ChangesRequest asks for the changes after the sequence number Since of a History
// ("": unknown).
type ChangesRequest struct {
	Head
	Since   int64  `json:"since"`
	History string `json:"history,omitempty"`
	Limit   int    `json:"limit,omitempty"` // 0: 1000
}

// ChangesReply holds the changes in order. Reset means that the origin has already
// deleted some of them, or that its History does not go on from the node's: the
// node then trusts no record of its replica before it has asked for it again.
type ChangesReply struct {
	Head
	Changes []store.Change `json:"changes,omitempty"`
	Latest  int64          `json:"latest"`            // the origin's last change
	History string         `json:"history,omitempty"` // that the numbers are of; "" of an older origin
	Reset   bool           `json:"reset,omitempty"`
}

// Changed is pushed after each commit, and without changes every second, so
// that a node notices a gap, or another History.
//
// First and Refs hold the changes in short form, which Decode turns into Changes. To an
// older node such a message has none: it asks for those before Latest. Encode writes the
// short form where Short is set and the changes have one.
type Changed struct {
	Head
	Changes []store.Change `json:"changes,omitempty"`
	First   int64          `json:"first,omitempty"`
	Refs    string         `json:"refs,omitempty"`
	Latest  int64          `json:"latest"`
	History string         `json:"history,omitempty"`
	Short   bool           `json:"-"`
}

// Wake announces deliveries that are due and that the process which wrote them
// did not claim itself. From names that process, which ignores the message.
type Wake struct {
	Head
	From string `json:"from"`
}

// LeadsRequest hands leads over to the origin, each as the JSON of a
// store.AcceptedLead. Each is idempotent by its id.
type LeadsRequest struct {
	Head
	Leads []json.RawMessage `json:"leads"`
	// Raw are those that may not be JSON, or not with their id. An older origin
	// ignores them.
	Raw []RawLead `json:"raw,omitempty"`
}

// RawLead is a lead as a node's disk has it.
type RawLead struct {
	ID   string `json:"id"`
	Body []byte `json:"body"`
}

// LeadsReply holds the ids of the leads that the origin has committed, either as
// leads or to its quarantine. Rejected has a reason for each that it does not keep,
// since the quarantine is full or its clock was put back; an older origin has no quarantine.
type LeadsReply struct {
	Head
	Committed []string          `json:"committed,omitempty"`
	Rejected  map[string]string `json:"rejected,omitempty"`
}

// SubscribeRequest creates a subscription. It is idempotent by its id.
type SubscribeRequest struct {
	Head
	Subscription store.Subscription `json:"subscription"`
	KeyHash      []byte             `json:"key_hash,omitempty"` // of the subscription's key
	// WithinMS is the time, in milliseconds, after which the origin must not make
	// the subscription any more: nobody waits for it. 0: it may.
	WithinMS int64 `json:"within_ms,omitempty"`
	// Once is set for a request with an idempotency key. An older origin ignores it.
	Once *Once `json:"once,omitempty"`
}

// Once names a request that is done once, for 24 hours.
type Once struct {
	Name   string `json:"name"`   // a hash of the API key's id and the idempotency key
	Digest string `json:"digest"` // of what is asked for
}

// SubscribeReply names in Reason the rule that refused the target, if one did.
// The failure is Limit if the account has as many subscriptions as it may.
type SubscribeReply struct {
	Head
	Reason string `json:"reason,omitempty"`
	// Conflict means that something else was asked for with the idempotency key.
	Conflict bool `json:"conflict,omitempty"`
	// Repeated is the subscription, with its secret, that was made when the same was
	// asked for before.
	Repeated *store.Subscription `json:"repeated,omitempty"`
}

// RevokeRequest revokes a subscription of an account.
type RevokeRequest struct {
	Head
	AccountID string `json:"account_id"`
	ID        string `json:"id"`
	KeyHash   []byte `json:"key_hash,omitempty"` // of a key of the account
	// Untold is set by a node that asked for the subscription and whose partner was
	// not told of it. KeyHash is then that of the subscription's own key, whatever
	// has become of that key since.
	Untold bool `json:"untold,omitempty"`
	// Once is the name of the idempotency key under which a subscription was asked
	// for whose partner was not answered. It is revoked unless another request with
	// the key was answered with it. ID is the one that the request brought, and names
	// what the request was answered with.
	Once string `json:"once,omitempty"`
}

// RevokeReply reports whether the subscription was revoked already. The failure
// is NotFound if the account has no such subscription.
type RevokeReply struct {
	Head
	Already bool `json:"already,omitempty"`
}

// MaxSpendKeys bounds the keys of one Spend or Share.
const MaxSpendKeys = 10_000

// Bounds of the names in a Spend and a Usage, in bytes.
const (
	MaxBootLength  = 64
	MaxKeyIDLength = 64
)

// Spend is a node's rate-limit report: for each key a counter of the requests it
// has admitted, which only rises and is merged by maximum at the origin. Every
// origin process receives it.
type Spend struct {
	Head
	Boot string              `json:"boot"` // identifies the run of the node that counts, at most MaxBootLength bytes
	Keys map[string]SpentKey `json:"keys"` // by key id
	// Usage is set every few seconds at most. An older origin ignores it.
	Usage *Usage `json:"usage,omitempty"`
}

// SpentKey is the report of one key. Without the key's hash it is confirmed and not
// counted, but for a node of version 1.
type SpentKey struct {
	ratelimit.Report
	KeyHash []byte `json:"h,omitempty"`
}

// Share holds the state of the buckets of a node's keys. The origin sends it at
// once after a Spend, and soon after another node has reported the same key.
// Boot is that of the reports it includes; a node ignores a share for another.
type Share struct {
	Head
	Boot string                     `json:"boot"`
	Keys map[string]ratelimit.Share `json:"keys"` // by key id
	// Used confirms that a Usage is in the database.
	Used *Used `json:"used,omitempty"`
}

// Status is a node's report on itself, sent every few seconds.
type Status struct {
	Head
	Region    string `json:"region"`
	Build     string `json:"release"`   // version of the program; Running is what it serves
	Seq       int64  `json:"seq"`       // last change it has applied
	Outbox    int    `json:"outbox"`    // leads waiting to be handed over
	HotKeys   int    `json:"hot_keys"`  // key records in the replica
	Sandboxes int    `json:"sandboxes"` // alive

	// ShortChanges: it reads the short form of Changed.
	ShortChanges bool `json:"short_changes,omitempty"`

	Traffic *Traffic `json:"traffic,omitempty"`

	// Running is the release that serves; Candidate is the one that is or was
	// tried beside it. Each is nil if there is none or the node is too old to say.
	Running   *ReleaseStatus `json:"running,omitempty"`
	Candidate *ReleaseStatus `json:"candidate,omitempty"`

	// RolledBack is Order.RolledBack of the last order, once no restart runs that any more; nil
	// if the node is too old to say.
	RolledBack *string `json:"rolled_back,omitempty"`
}
