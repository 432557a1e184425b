package webhook

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// TestDescribedErrorsSteerNothing: an error may quote what an endpoint sent, and is shown
// on terminals and pages. What it says stays legible.
func TestDescribedErrorsSteerNothing(t *testing.T) {
	for _, tt := range []struct{ err, want string }{
		{"x509: certificate is valid for a.example", "x509: certificate is valid for a.example"},
		{"valid for \x1b[2J\u009b31m\x07a.example", "valid for \ufffd[2J\ufffd31m\ufffda.example"},
		{"valid for \u202eelpmaxe\u2066.a\r\n", "valid for \ufffdelpmaxe\ufffd.a\ufffd\ufffd"},
		{"valid for \x9b31m", "valid for \ufffd31m"},
		{"zürich.example", "zürich.example"},
	} {
		if got := describe(errors.New(tt.err), false, time.Second); got != tt.want {
			t.Errorf("%q is described as %q, want %q", tt.err, got, tt.want)
		}
	}
	for size := range 4 { // of the last rune that fits
		long := describe(errors.New(strings.Repeat("x", 509+size)+strings.Repeat("\x1b\U0001f600", 1000)), false, time.Second)
		if len(long) > 512 || !utf8.ValidString(long) || strings.ContainsFunc(long, unicode.IsControl) {
			t.Errorf("a long error is described by %d bytes: %q", len(long), long[500:])
		}
	}
}
