package answer

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"partneredge/wasm/abi"
)

func TestError(t *testing.T) {
	for _, tt := range []struct {
		name  string
		write func(*abi.Response)
		want  string
		after string
	}{
		{"with reason", func(r *abi.Response) { Error(r, 401, "unauthorized", "unknown_api_key") }, `{"error":"unauthorized","reason":"unknown_api_key"}`, ""},
		{"without", func(r *abi.Response) { Error(r, 404, "not_found", "") }, `{"error":"not_found"}`, ""},
		{"wait", func(r *abi.Response) { ErrorAfter(r, 429, "rate_limited", "rate_limited", 1001) }, `{"error":"rate_limited","reason":"rate_limited","retry_after_seconds":2}`, "2"},
		{"internal", Internal, `{"error":"internal_error"}`, "1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := abi.Response{Body: []byte("left over")}
			tt.write(&resp)
			if string(resp.Body) != tt.want {
				t.Errorf("body %s, want %s", resp.Body, tt.want)
			}
			got := ""
			for _, h := range resp.Headers {
				got += h.Name + ": " + h.Value
			}
			if want := "retry-after: " + tt.after; tt.after != "" && got != want || tt.after == "" && got != "" {
				t.Errorf("headers %q, want retry-after %q", got, tt.after)
			}
		})
	}
}

func TestSeconds(t *testing.T) {
	for ms, want := range map[int64]int64{-5: 1, 0: 1, 1: 1, 1000: 1, 1001: 2, 900_000: 900, 900_001: 901} {
		if got := Seconds(ms); got != want {
			t.Errorf("Seconds(%d) = %d, want %d", ms, got, want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", `"\/`, "\x00\x1f\n\r\t\x7f", "é\u2028😀", "\xff", "a\xc3", "\xed\xa0\x80", "\uFFFD"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := AppendString(nil, s)
		if !utf8.Valid(b) {
			t.Fatalf("AppendString(%q) is not UTF-8: %q", s, b)
		}
		var got string
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatalf("AppendString(%q) = %s: %v", s, b, err)
		}
		var want strings.Builder
		for _, r := range s { // ranging gives U+FFFD for each bad byte
			want.WriteRune(r)
		}
		if got != want.String() {
			t.Fatalf("AppendString(%q) reads back as %q", s, got)
		}
		if text := AppendText(nil, got); string(text) != string(b) {
			t.Fatalf("AppendText(%q) = %q, want %q", got, text, b)
		}
	})
}

// TestAppendStringAtEveryPlace puts each kind of byte that is escaped, and runes,
// at every offset of an eight-byte word, among bytes that are nearly escaped.
func TestAppendStringAtEveryPlace(t *testing.T) {
	for _, special := range []string{"\x00", "\x1f", `"`, `\`, "\n", "\xff", "é", "😀"} {
		for _, rest := range []string{" ", "!", "#", "[", "]", "\x7f", "é", "\xa2"} {
			for before := range 18 {
				s := strings.Repeat(rest, before) + special + strings.Repeat(rest, 17-before)
				var got string
				if err := json.Unmarshal(AppendString(nil, s), &got); err != nil {
					t.Fatalf("AppendString(%q): %v", s, err)
				}
				if want := string([]rune(s)); got != want {
					t.Fatalf("AppendString(%q) reads back as %q", s, got)
				}
			}
		}
	}
}
