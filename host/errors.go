package host

import (
	"errors"
	"fmt"
)

// Reason says why a call failed. The set only grows. RequestSize is answered with 413
// payload_too_large, and all else with 500 internal_error; of a Canceled call the client is gone.
type Reason string

// Reasons.
const (
	CPUDeadline        Reason = "cpu_deadline"        // computed for longer than Limits.CPU
	WallDeadline       Reason = "wall_deadline"       // took longer than Limits.Wall, or than the context's deadline
	CapabilityDeadline Reason = "capability_deadline" // the same, but the time ended in a capability, or while the host wrote its log
	Memory             Reason = "memory"              // failed after it was refused more memory
	ResponseSize       Reason = "response_size"       // answered more than Limits.Response
	RequestSize        Reason = "request_size"        // the request does not fit the guest's input buffer
	HostCalls          Reason = "host_calls"          // called the host more often than Limits.HostCalls
	LogBytes           Reason = "log_bytes"           // logged more than Limits.Log
	SocketBytes        Reason = "socket_bytes"        // read from and wrote to sockets more than Limits.SocketBytes
	Trap               Reason = "trap"                // did what WebAssembly forbids: out of bounds, unreachable, stack overflow…
	Exit               Reason = "exit"                // called proc_exit
	BadPointer         Reason = "bad_pointer"         // gave the host an address outside its memory
	BadResponse        Reason = "bad_response"        // answered what is not a response frame
	Busy               Reason = "busy"                // no sandbox was free in time: retry later
	Canceled           Reason = "canceled"            // the context was cancelled
	Closed             Reason = "closed"              // the module or the runtime is closed
	Failed             Reason = "failed"              // the host could not make a sandbox
)

// Outside reports whether a call that failed speaks of the node's load, of what the node offers
// modules or of the client, rather than against the module.
func (r Reason) Outside() bool {
	switch r {
	case CapabilityDeadline, Busy, Canceled, Closed, Failed, RequestSize:
		return true
	}
	return false
}

// ErrBusy is wrapped by the error of a call for which no sandbox was free in time.
var ErrBusy = errors.New("no sandbox free")

// ErrClosed is wrapped by the error of a call on a closed module.
var ErrClosed = errors.New("module closed")

// Error is the error of every failed call.
type Error struct {
	Module string // the manifest's name
	Reason Reason
	Err    error // the cause, as far as it is known; may be nil
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("call module %s: %s", e.Module, e.Reason)
	}
	return fmt.Sprintf("call module %s: %s: %v", e.Module, e.Reason, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Outside reports whether the reason lies outside the module.
func (e *Error) Outside() bool { return e.Reason.Outside() }

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{
		CPUDeadline, WallDeadline, CapabilityDeadline, Memory, ResponseSize, RequestSize, HostCalls, LogBytes, SocketBytes, Trap, Exit,
		BadPointer, BadResponse, Busy, Canceled, Closed, Failed,
	}
}

// ReasonOf returns the reason of a call's error, "" when err is not one.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// stop is the value of the panic by which a host function ends the guest's call.
type stop struct {
	reason Reason
	err    error
}

func (s *stop) Error() string {
	if s.err == nil {
		return string(s.reason)
	}
	return string(s.reason) + ": " + s.err.Error()
}
