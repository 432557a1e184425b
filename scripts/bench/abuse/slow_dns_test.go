package main

import (
	"context"
	"net/http"
	"testing"

	"partneredge/scripts/bench/harness"
)

// TestSlowAttackThatIsRefused: the bench fails when fewer requests wait than an origin holds,
// and only then.
func TestSlowAttackThatIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		waiting int // of all; the others are refused at once
		fails   bool
	}{
		{"all wait", slowSubscribes, false},
		{"those wait that an origin holds", slowHeld, false},
		{"one less waits", slowHeld - 1, true},
		{"all are refused", 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			a := &slowAttack{cancel: cancel}
			defer a.end()
			for i := range slowSubscribes {
				a.repeat(ctx, func() (int, []byte, error) {
					if i < tt.waiting {
						<-ctx.Done()
						return 0, nil, ctx.Err()
					}
					return http.StatusForbidden, nil, nil
				})
			}
			err := harness.Poll(t.Context(), "the refused ones", func() (bool, error) { return int(a.underWay.Load()) == tt.waiting, nil })
			if err != nil {
				t.Fatal(err)
			}
			if err := a.check(); (err != nil) != tt.fails {
				t.Errorf("%v, want an error: %t", err, tt.fails)
			}
		})
	}
}
