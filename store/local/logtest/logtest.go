// Package logtest keeps what a test's subject logs, to be read while it goes on logging.
package logtest

import (
	"log/slog"
	"strings"
	"sync"
)

// Text keeps what was logged, by whichever goroutine.
type Text struct {
	mu   sync.Mutex
	text strings.Builder
}

// New returns a logger and the text that it writes.
func New() (*slog.Logger, *Text) {
	t := &Text{}
	return slog.New(slog.NewTextHandler(t, nil)), t
}

// Write implements io.Writer.
func (t *Text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(b)
}

// String returns all that was logged so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Lines counts the lines that were logged so far.
func (t *Text) Lines() int { return strings.Count(t.String(), "\n") }
