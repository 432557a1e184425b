// Package closers ends the parts of a process in the reverse order of their start.
package closers

import (
	"context"
	"errors"
	"slices"
)

// Stack holds the functions that end what has been started. The zero Stack is
// empty. It is for one goroutine at a time.
type Stack []func(context.Context) error

// Add adds end, which Close calls before those that were added earlier.
func (s *Stack) Add(end func(context.Context) error) { *s = append(*s, end) }

// AddFunc is like Add for what ends without a context and without an error.
func (s *Stack) AddFunc(end func()) {
	s.Add(func(context.Context) error { end(); return nil })
}

// Close calls every function, the last one first, whatever errors they return. It
// empties the stack, so it may be called twice.
func (s *Stack) Close(ctx context.Context) error {
	var errs []error
	for _, end := range slices.Backward(*s) {
		errs = append(errs, end(ctx))
	}
	*s = nil
	return errors.Join(errs...)
}
