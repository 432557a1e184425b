// Package answer writes what a module answers: JSON by appending, error bodies,
// and times. It uses no reflection and no fmt, so that modules stay small.
package answer

import (
	"strconv"

	"partneredge/wasm/abi"
)

// Error makes resp the answer {"error": code, "reason": reason}, without the
// reason where it is "". Headers that resp already has stay.
func Error(resp *abi.Response, status int, code, reason string) {
	resp.Status = status
	b := AppendString(append(resp.Body[:0], `{"error":`...), code)
	if reason != "" {
		b = AppendString(append(b, `,"reason":`...), reason)
	}
	resp.Body = append(b, '}')
}

// ErrorAfter is Error with the time to wait in milliseconds, rounded up to
// whole seconds, as the field retry_after_seconds and the header Retry-After.
func ErrorAfter(resp *abi.Response, status int, code, reason string, waitMS int64) {
	seconds := Seconds(waitMS)
	Error(resp, status, code, reason)
	b := append(resp.Body[:len(resp.Body)-1], `,"retry_after_seconds":`...)
	resp.Body = append(strconv.AppendInt(b, seconds, 10), '}')
	Header(resp, "retry-after", strconv.FormatInt(seconds, 10))
}

// Internal makes resp a 500 that is safe to ask again after a second.
func Internal(resp *abi.Response) {
	Error(resp, 500, "internal_error", "")
	Header(resp, "retry-after", "1")
}

// Header adds one header; name is in lower case.
func Header(resp *abi.Response, name, value string) {
	resp.Headers = append(resp.Headers, abi.Header{Name: name, Value: value})
}

// Seconds is ms in whole seconds, rounded up, at least 1.
func Seconds(ms int64) int64 {
	if ms <= 1000 {
		return 1
	}
	return (ms-1)/1000 + 1
}
