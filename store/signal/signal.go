// Package signal wakes goroutines.
package signal

// Signal wakes a goroutine that receives from it. Sends that were not received yet become one.
type Signal chan struct{}

// New returns a Signal, which nothing was sent on.
func New() Signal { return make(Signal, 1) }

// Send sends on the signal. It never blocks.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
