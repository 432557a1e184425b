package deliveries

import (
	"testing"

	"pgregory.net/rapid"

	"partneredge/store/central/db"
)

// TestHeadersText: headers are written as encoding/json writes them.
func TestHeadersText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9 =,/-]*`), rapid.String(), rapid.SampledFrom([]string{"", `"`, `\`, "<", ">", "&", "\x00", "\x7f", "\u2028", "\xff"}))
		headers := rapid.MapOf(text, text).Draw(t, "headers")
		if got, want := headersText(headers), db.JSONText(headers); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
	if got, want := headersText(nil), db.JSONText(map[string]string(nil)); got != want {
		t.Errorf("of none: %s, want %s", got, want)
	}
}
