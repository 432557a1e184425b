package admin

import "testing"

// TestAdminsOnly: every pattern that only admins may use is one of a route.
func TestAdminsOnly(t *testing.T) {
	patterns := make(map[string]bool)
	for _, r := range Routes() {
		patterns[r.Pattern] = true
	}
	for _, pattern := range adminsOnly {
		if !patterns[pattern] {
			t.Errorf("no route %s", pattern)
		}
	}
}
