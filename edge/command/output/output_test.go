package output

import (
	"strings"
	"testing"
)

// TestControlCharactersAreQuoted: what a record holds cannot steer the terminal,
// nor add lines or columns to a table.
func TestControlCharactersAreQuoted(t *testing.T) {
	for _, odd := range []string{"\x1b[2Jgone", "a\nb", "a\tb", "\u009b31m", "\x7f", "a\u202eb"} {
		record := map[string]any{"id": odd, "words": []any{odd}, "agent": map[string]any{"email": odd}, "other": map[string]any{odd: 1}}
		for _, column := range []string{"id", "words", "agent.email", "other"} {
			var out strings.Builder
			if err := (Printer{Out: &out}).Records([]map[string]any{record}, column); err != nil {
				t.Fatal(err)
			}
			header, line, _ := strings.Cut(out.String(), "\n")
			if header != strings.ToUpper(column) || !strings.HasPrefix(line, `"`) || Plain(strings.TrimSuffix(line, "\n")) != strings.TrimSuffix(line, "\n") {
				t.Errorf("%s of %q is shown as %q", column, odd, line)
			}
		}
	}
	for _, text := range []string{"Zoë “Li”", "株式会社\u3000東京", `C:\x`, ""} {
		if got := Plain(text); got != text {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
