// Package hint gives an error advice on what to do about it. A command prints the
// advice in a line of its own after the error.
package hint

import "fmt"

// Error is an error with advice.
type Error struct {
	Err    error
	Advice string
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Add adds to err advice on what to do about it; nil stays nil.
func Add(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{err, fmt.Sprintf(format, args...)}
}
