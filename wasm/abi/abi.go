// Package abi names the boundary between a host and a guest module and draws
// every byte that crosses it. It has no dependencies, so both sides link it.
//
// A guest is a WASI preview 1 reactor. The host writes one request frame into
// the guest's input buffer, calls ExportHandle, and reads one response frame.
// While it runs, the guest may ask the host for something through ImportCall.
// All integers are little endian. A "bytes" field is a u32 length, then that
// many bytes. Times are microseconds since the Unix epoch, UTC; 0 is "not set".
package abi

// Version is the first byte of every request and response frame. A side that
// meets another version refuses the frame.
const Version = 1

// Guest exports.
const (
	// ExportInput is func() i64: address<<32 | capacity of the input buffer.
	// The address never changes once the guest is initialised, so a host may
	// ask once. For address 0x1a00 and 96 KiB: 0x00001a00_00018000.
	ExportInput = "edge_input"
	// ExportHandle is func(n i32) i64: takes the n bytes of request frame in
	// the input buffer; returns address<<32 | length of the response frame.
	// 0 means that the guest could not read the request.
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

// InputSize is the capacity in bytes that a guest's input buffer must have at
// least: a 64 KiB body, and as much of a path, query and headers as the host
// lets in.
const InputSize = 96 << 10

// Op is an operation of ImportCall. The set only grows; numbers are never
// used again.
type Op int32

// Operations, with the capability that grants each, what the guest sends ->
// what the host answers. Operations on an account always act on the account of
// the request's principal: the guest cannot name one.
const (
	// OpLockout [lockouts]: client address as text -> i64 milliseconds for
	// which the address is still locked out, 0 when it is not.
	OpLockout Op = 1
	// OpFailure [lockouts]: client address as text; counts a failed
	// authentication -> i64 milliseconds of lockout, 0 when below the threshold.
	OpFailure Op = 2
	// OpKey [keys]: the bearer token's bytes -> Key frame. The host hashes.
	// CodeNotFound when there is no such key.
	OpKey Op = 3
	// OpTake [buckets]: u32 limit a minute, then the key's id as the remaining
	// bytes -> Bucket frame.
	OpTake Op = 4
	// OpProfile [views]: nothing -> Profile frame.
	OpProfile Op = 5
	// OpInsights [views]: i64 since (exclusive, 0 none), u32 limit -> list of
	// Insight frames, newest first.
	OpInsights Op = 6
	// OpFirings [views]: i64 before (exclusive, 0 none), u32 limit -> list of
	// Firing frames, newest first.
	OpFirings Op = 7
	// OpSubscribe [subscriptions]: Subscription frame -> nothing, or, when the
	// target was refused, the reason as text ("host_not_public"). CodeLimit when
	// the account has its most. Idempotent by id.
	OpSubscribe Op = 8
	// OpRevoke [subscriptions]: subscription id -> u8, 1 when it had been
	// revoked before; CodeNotFound when the account has no such subscription.
	OpRevoke Op = 9
	// OpLead [outbox]: Lead frame -> nothing, once the lead is on disk.
	OpLead Op = 10
	// OpLeadOnce [outbox]: Once frame -> Kept frame, once the lead is on disk or
	// was kept before. With a test key nothing is kept, and all else is the same.
	OpLeadOnce Op = 11
)

// Code is a negative result of ImportCall.
type Code int32

// Codes. CodeShort carries a number: the host needs -(code-CodeShort) bytes of
// room and did nothing, so the guest may call again; 300 bytes are
// -65536-300 = -65836.
const (
	CodeDenied      Code = -1 // the manifest does not grant the capability
	CodeNotFound    Code = -2
	CodeUnavailable Code = -3 // the host cannot know now: answer 500, retry later
	CodeLimit       Code = -4 // a cap is reached
	CodeInvalid     Code = -5 // the guest's frame could not be read
	CodeFailed      Code = -6 // the host failed; its log says why
	CodeShort       Code = -65536
)

// Capability is what a manifest grants to a module: a group of operations.
type Capability string

// Capabilities.
const (
	Keys          Capability = "keys"
	Buckets       Capability = "buckets"
	Lockouts      Capability = "lockouts"
	Views         Capability = "views"
	Subscriptions Capability = "subscriptions"
	Outbox        Capability = "outbox"
)

// Needs is the capability that grants op, "" for an unknown op.
func (op Op) Needs() Capability {
	switch op {
	case OpLockout, OpFailure:
		return Lockouts
	case OpKey:
		return Keys
	case OpTake:
		return Buckets
	case OpProfile, OpInsights, OpFirings:
		return Views
	case OpSubscribe, OpRevoke:
		return Subscriptions
	case OpLead, OpLeadOnce:
		return Outbox
	}
	return ""
}

// Error makes a Code the error that a guest's calls return.
func (c Code) Error() string {
	switch c {
	case CodeDenied:
		return "call host: capability not granted"
	case CodeNotFound:
		return "call host: not found"
	case CodeUnavailable:
		return "call host: unavailable"
	case CodeLimit:
		return "call host: limit reached"
	case CodeInvalid:
		return "call host: malformed frame"
	}
	return "call host: failed"
}
