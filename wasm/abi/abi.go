// Package abi defines the boundary between a host and a guest module: the
// functions of each side and the layout of every frame that crosses it. It has
// no dependencies, so that both sides can link it.
//
// A guest is a WASI preview 1 reactor. The host writes one request frame into
// the guest's input buffer, calls ExportHandle, and reads one response frame.
// While it runs, the guest may call the host through ImportCall. All integers
// are little endian. A "bytes" field is a u32 length, then that many bytes.
// Times are microseconds since the Unix epoch, UTC; 0 means "not set".
package abi

import "errors"

// Version is the first byte of every request and response frame. Both sides
// refuse frames of another version.
const Version = 1

// Guest exports.
const (
	// ExportInput is func() i64: address<<32 | capacity of the input buffer.
	// The address never changes once the guest is initialized, so a host need
	// ask only once. For address 0x1a00 and 96 KiB: 0x00001a00_00018000.
	ExportInput = "edge_input"
	// ExportHandle is func(n i32) i64: handles the request frame in the first n
	// bytes of the input buffer and returns address<<32 | length of the response
	// frame. 0 means that the guest could not parse the request, or has no handler.
	ExportHandle = "edge_handle"
)

// Host imports, all in module ImportModule.
const (
	ImportModule = "edge"
	// ImportCall is func(op, ptr, len, out, cap i32) i32. It runs operation op
	// on the len bytes at ptr and writes the result to the cap bytes at out.
	// A result >= 0 is the number of bytes written, a negative one a Code.
	ImportCall = "call"
	// ImportLog is func(level, ptr, len i32): one line of UTF-8 text; level as
	// in log/slog (-4 debug, 0 info, 4 warn, 8 error).
	ImportLog = "log"
)

// Sizes in bytes.
const (
	// MaxRequest is the capacity that a guest's input buffer should have. It holds every
	// request: a body of 64 KiB and 16 KiB of path, query and headers, of which a
	// parameter of the path is there three times.
	MaxRequest = 128 << 10
	// InputSize is the smallest capacity that the host accepts. Requests that do not fit
	// are answered 413.
	InputSize = 96 << 10
)

// The most items of one answer.
const (
	MaxInsights = 50  // of OpInsights
	MaxFirings  = 100 // of OpFirings
)

// ErrTooLarge is the error of a request that does not fit the guest's input buffer.
var ErrTooLarge = errors.New("the request is longer than the guest's input buffer")

// Op is an operation of ImportCall. The set only grows; numbers are never
// reused.
type Op int32

// Operations: each with the capability that grants it, and the guest's frame ->
// the host's result. Operations on an account act on the account of the request's
// principal; the guest cannot name another.
const (
	// OpLockout [lockouts]: client address as text -> i64 milliseconds for
	// which the address is still locked out, 0 if it is not.
	OpLockout Op = 1
	// OpFailure [lockouts]: client address as text; counts a failed
	// authentication -> i64 milliseconds of lockout, 0 if below the threshold.
	OpFailure Op = 2
	// OpKey [keys]: the bearer token -> Key frame without own scopes. The host hashes
	// the token. CodeNotFound if there is no such key.
	OpKey Op = 3
	// OpTake [buckets]: u32 limit a minute, then the key's id as the remaining
	// bytes; spends one token -> Bucket frame.
	OpTake Op = 4
	// OpProfile [views]: nothing -> Profile frame.
	OpProfile Op = 5
	// OpInsights [views]: i64 since (exclusive, 0 none), u32 limit -> Insights
	// frame, newest first. A limit above MaxInsights is MaxInsights.
	OpInsights Op = 6
	// OpFirings [views]: i64 before (exclusive, 0 none), u32 limit -> Firings
	// frame, newest first. A limit above MaxFirings is MaxFirings.
	OpFirings Op = 7
	// OpSubscribe [subscriptions]: Subscription frame -> nothing, or the reason as
	// text ("host_not_public") if the target is refused. CodeLimit if the account
	// has as many as it may. Idempotent by id.
	OpSubscribe Op = 8
	// OpRevoke [subscriptions]: subscription id -> u8, 1 if it was revoked before.
	// CodeNotFound if the account has no such subscription.
	OpRevoke Op = 9
	// OpLead [outbox]: Lead frame -> nothing, once the lead is on disk. CodeInvalid with a test
	// key, of which no lead is kept, without an id, and for a ConsentStatus other than
	// express_written, inbound_initiated and none.
	OpLead Op = 10
	// OpLeadOnce [outbox]: Once frame -> Kept frame, once the lead is on disk or
	// was kept before. The lead's id is that of the Kept frame. With a test key no
	// lead is kept.
	OpLeadOnce Op = 11
	// OpSubscribeOnce [subscriptions]: SubscribeOnce frame -> Subscribed frame. Errors
	// are those of OpSubscribe.
	OpSubscribeOnce Op = 12
	// OpRoutes [routes]: nothing -> Routes frame of the release. It never changes
	// while the module is open, so a gate asks once, while its image is made.
	OpRoutes Op = 13
	// OpKeyScopes [keys]: as OpKey, with the key's own scopes.
	OpKeyScopes Op = 14
)

// Code is a negative result of ImportCall.
type Code int32

// Codes. CodeShort carries a number: the result needs -(code-CodeShort) bytes at
// out. The host did nothing, so the guest may call again. 300 bytes are
// -65536-300 = -65836.
const (
	CodeDenied      Code = -1 // the manifest does not grant the capability, or the key lacks Op.Scope
	CodeNotFound    Code = -2
	CodeUnavailable Code = -3 // the host cannot tell now: answer 500, retry later
	CodeLimit       Code = -4 // a cap is reached
	CodeInvalid     Code = -5 // the guest's frame is malformed, or asks for what cannot be
	CodeFailed      Code = -6 // the host failed; its log says why
	CodeShort       Code = -65536
)

// Capability is a group of operations that a manifest grants to its module.
type Capability string

// Capabilities.
const (
	Keys          Capability = "keys"
	Buckets       Capability = "buckets"
	Lockouts      Capability = "lockouts"
	Views         Capability = "views"
	Subscriptions Capability = "subscriptions"
	Outbox        Capability = "outbox"
	RouteTable    Capability = "routes" // of the gate alone
)

// Known reports whether there is such a capability.
func (c Capability) Known() bool {
	switch c {
	case Keys, Buckets, Lockouts, Views, Subscriptions, Outbox, RouteTable:
		return true
	}
	return false
}

// Needs returns the capability that grants op, "" for an unknown op.
func (op Op) Needs() Capability {
	switch op {
	case OpLockout, OpFailure:
		return Lockouts
	case OpKey, OpKeyScopes:
		return Keys
	case OpTake:
		return Buckets
	case OpProfile, OpInsights, OpFirings:
		return Views
	case OpSubscribe, OpSubscribeOnce, OpRevoke:
		return Subscriptions
	case OpLead, OpLeadOnce:
		return Outbox
	case OpRoutes:
		return RouteTable
	}
	return ""
}

// Scope returns the contract's scope that the request's principal must have for op, 0
// when it needs none. A module's own scope on its route does not stand for it.
func (op Op) Scope() Scopes {
	switch op {
	case OpProfile:
		return ReadAgent
	case OpInsights:
		return ReadCoaching
	case OpFirings:
		return ReadSentinels
	case OpSubscribe, OpSubscribeOnce, OpRevoke:
		return WriteWebhooks
	case OpLead, OpLeadOnce:
		return WriteLeads
	}
	return 0
}

// Error describes the code. Calls of a guest return a Code as their error.
func (c Code) Error() string {
	switch c {
	case CodeDenied:
		return "call host: not granted by the manifest, or the key lacks the scope"
	case CodeNotFound:
		return "call host: not found"
	case CodeUnavailable:
		return "call host: unavailable"
	case CodeLimit:
		return "call host: limit reached"
	case CodeInvalid:
		return "call host: malformed or invalid frame"
	}
	return "call host: failed"
}
