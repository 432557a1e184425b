// Package answer writes the responses of modules by appending JSON to them. It
// uses no reflection and no fmt, so that modules stay small.
package answer

import (
	"strconv"

	"partneredge/wasm/abi"
)

// Error sets the body of resp to {"error": code, "reason": reason}, without
// reason if it is "". Headers that resp already has stay.
func Error(resp *abi.Response, status int, code, reason string) {
	resp.Status = status
	b := AppendString(append(resp.Body[:0], `{"error":`...), code)
	if reason != "" {
		b = AppendString(append(b, `,"reason":`...), reason)
	}
	resp.Body = append(b, '}')
}

// ErrorAfter is like Error and also tells the client how long to wait, rounded
// up to whole seconds, in the field retry_after_seconds and in Retry-After.
func ErrorAfter(resp *abi.Response, status int, code, reason string, waitMS int64) {
	seconds := Seconds(waitMS)
	Error(resp, status, code, reason)
	b := append(resp.Body[:len(resp.Body)-1], `,"retry_after_seconds":`...)
	resp.Body = append(strconv.AppendInt(b, seconds, 10), '}')
	Header(resp, "retry-after", strconv.FormatInt(seconds, 10))
}

// Internal makes resp a 500 that the client may retry after a second.
func Internal(resp *abi.Response) {
	Error(resp, 500, "internal_error", "")
	Header(resp, "retry-after", "1")
}

// Header adds a header to resp. name must be in lower case.
func Header(resp *abi.Response, name, value string) {
	resp.Headers = append(resp.Headers, abi.Header{Name: name, Value: value})
}

// Seconds converts milliseconds to whole seconds, rounded up, at least 1.
func Seconds(ms int64) int64 {
	if ms <= 1000 {
		return 1
	}
	return (ms-1)/1000 + 1
}

// AppendOptional appends s as AppendString does, or null if s is "".
func AppendOptional(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return AppendString(b, s)
}

// AppendList appends each item by one, with commas between the items.
func AppendList[T any](b []byte, items []T, one func([]byte, *T) []byte) []byte {
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, &items[i])
	}
	return b
}
