// Package logging bounds the warnings of one cause: whatever others can bring
// about as often as they like does not fill a log.
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
	// causesMost bounds the memory of causes. Beyond, all are forgotten.
	causesMost = 1000
)

// Limiter warns of each cause at most once in Every. What comes in between is logged
// as debug, and counted: the next warning says how much it was, as held_back.
type Limiter struct {
	log *slog.Logger

	mu     sync.Mutex
	causes map[string]cause
}

type cause struct {
	warned   time.Time
	heldBack int
}

// New bounds the warnings to log.
func New(log *slog.Logger) *Limiter { return &Limiter{log: log, causes: map[string]cause{}} }

// Warn of something that cause brought about.
func (l *Limiter) Warn(cause, message string, args ...any) {
	heldBack, now := l.turn(cause)
	switch {
	case !now:
		l.log.Log(context.Background(), slog.LevelDebug, message, args...)
		return
	case heldBack > 0:
		args = append(args, "held_back", heldBack)
	}
	l.log.Warn(message, args...)
}

// turn tells whether the cause is to be warned of now, and how often it was not.
func (l *Limiter) turn(name string) (heldBack int, now bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, known := l.causes[name]
	if known && time.Since(c.warned) < Every {
		c.heldBack++
		l.causes[name] = c
		return 0, false
	}
	if !known && len(l.causes) >= causesMost {
		clear(l.causes)
	}
	l.causes[name] = cause{warned: time.Now()}
	return c.heldBack, true
}
