// Package logging limits the rate of warnings and errors, so that events which others can
// cause at will do not fill a log.
package logging

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// Every is the least time between two warnings of one cause.
	Every = time.Minute
	// maxCauses bounds the causes that are remembered. With one more, all are
	// forgotten.
	maxCauses = 1000
)

// Limiter logs at most one warning in Every for each cause. The others are logged
// at level debug, and the next warning has their number as held_back.
type Limiter struct {
	log *slog.Logger

	mu     sync.Mutex
	causes map[string]cause
}

type cause struct {
	warned   time.Time
	heldBack int
}

// New returns a Limiter of warnings to log.
func New(log *slog.Logger) *Limiter { return &Limiter{log: log, causes: map[string]cause{}} }

// Warn logs a warning about something that has this cause.
func (l *Limiter) Warn(cause, message string, args ...any) {
	l.print(slog.LevelWarn, cause, message, args)
}

// Error is Warn for an error.
func (l *Limiter) Error(cause, message string, args ...any) {
	l.print(slog.LevelError, cause, message, args)
}

func (l *Limiter) print(level slog.Level, cause, message string, args []any) {
	heldBack, allowed := l.allow(cause)
	switch {
	case !allowed:
		level = slog.LevelDebug
	case heldBack > 0:
		args = append(args, "held_back", heldBack)
	}
	l.log.Log(context.Background(), level, message, args...)
}

// allow reports whether a warning of this cause is due, and how many were held
// back before it.
func (l *Limiter) allow(name string) (heldBack int, allowed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, known := l.causes[name]
	if known && time.Since(c.warned) < Every {
		c.heldBack++
		l.causes[name] = c
		return 0, false
	}
	if !known && len(l.causes) >= maxCauses {
		clear(l.causes)
	}
	l.causes[name] = cause{warned: time.Now()}
	return c.heldBack, true
}
