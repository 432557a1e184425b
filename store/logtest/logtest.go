// Package logtest collects what code under test logs or prints, so that a test can read it
// while that code runs.
package logtest

import (
	"log/slog"
	"strings"
	"sync"
)

// Buffer keeps what was written to it, by whichever goroutine.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// New returns a logger and the buffer to which it writes.
func New() (*slog.Logger, *Buffer) {
	b := &Buffer{}
	return slog.New(slog.NewTextHandler(b, nil)), b
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Reset forgets what was written so far.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// Count counts how often part was written so far.
func (b *Buffer) Count(part string) int { return strings.Count(b.String(), part) }

// Lines counts the lines that were written so far.
func (b *Buffer) Lines() int { return b.Count("\n") }
