package output

import (
	"encoding/json"
	"errors"
	"maps"
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
	for text, want := range map[string]string{"a\nb": "a\nb", "a\x1b[2J\n\u009b1m\"": "a\\x1b[2J\n\\u009b1m\\\"", "\x9b31m": "\\x9b31m", "no": "no"} {
		if got := Lines(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"Zoë “Li”", "株式会社\u3000東京", `C:\x`, ""} {
		if got := Plain(text); got != text {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

// FuzzWriteJSON: the JSON that is written has the same value, and nothing in it that
// steers a terminal.
func FuzzWriteJSON(f *testing.F) {
	f.Add("\x1b[2J\u009b31m\x7f\u202e", "plain")
	f.Fuzz(func(t *testing.T, a, b string) {
		raw, err := json.Marshal(map[string]string{a: b})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := WriteJSON(&out, raw); err != nil {
			t.Fatal(err)
		}
		line := strings.TrimSuffix(out.String(), "\n")
		if strings.ContainsFunc(line, steers) {
			t.Errorf("%q is written as %q", raw, line)
		}
		var before, after map[string]string
		if err := errors.Join(json.Unmarshal(raw, &before), json.Unmarshal([]byte(line), &after)); err != nil || !maps.Equal(before, after) {
			t.Errorf("%q became %q: %v", raw, line, err)
		}
	})
}
