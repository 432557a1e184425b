package answer

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

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
	})
}

func TestFormatTime(t *testing.T) {
	for _, tt := range []struct {
		micros int64
		want   string
	}{
		{0, "1970-01-01T00:00:00.000000Z"},
		{-1, "1969-12-31T23:59:59.999999Z"},
		{951_782_400_000_000, "2000-02-29T00:00:00.000000Z"},
		{1_714_557_600_123_456, "2024-05-01T10:00:00.123456Z"},
		{-1 << 63, "0000-01-01T00:00:00.000000Z"},
		{1<<63 - 1, "9999-12-31T23:59:59.999999Z"},
	} {
		if got := FormatTime(tt.micros); got != tt.want {
			t.Errorf("FormatTime(%d) = %s, want %s", tt.micros, got, tt.want)
		}
	}
}

// The standard library is the judge of every moment of the calendar.
func TestTimeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.Int64Range(earliest, latest).Draw(t, "micros")
		want := time.UnixMicro(micros).UTC()
		s := FormatTime(micros)
		if s != want.Format("2006-01-02T15:04:05.000000Z") {
			t.Fatalf("FormatTime(%d) = %s, want %s", micros, s, want)
		}
		if got, ok := ParseTime(s); !ok || got != micros {
			t.Fatalf("ParseTime(%s) = %d %v, want %d", s, got, ok, micros)
		}
		minutes := rapid.IntRange(-1439, 1439).Draw(t, "offset")
		there := want.In(time.FixedZone("", minutes*60))
		if there.Year() < 0 || there.Year() > 9999 {
			return
		}
		if got, ok := ParseTime(there.Format(time.RFC3339Nano)); !ok || got != micros {
			t.Fatalf("ParseTime(%s) = %d %v, want %d", there.Format(time.RFC3339Nano), got, ok, micros)
		}
	})
}

func TestParseTime(t *testing.T) {
	at := func(s string) int64 {
		tm, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return tm.UnixMicro()
	}
	ten := at("2024-05-01T10:00:00Z")
	for s, want := range map[string]int64{
		"2024-05-01":                      at("2024-05-01T00:00:00Z"),
		"2024-05-01T10:00:00Z":            ten,
		"2024-05-01t10:00:00z":            ten,
		"2024-05-01 10:00:00":             ten,
		"2024-05-01T10:00":                ten,
		"2024-05-01T10:00Z":               ten,
		"2024-05-01T12:00:00+02:00":       ten,
		"2024-05-01T12:00:00+0200":        ten,
		"2024-05-01T12:00:00+02":          ten,
		"2024-05-01T04:30:00-05:30":       ten,
		"2024-05-01T10:00:00-00:00":       ten,
		"2024-05-01T10:00:00.5Z":          ten + 500_000,
		"2024-05-01T10:00:00,000001":      ten + 1,
		"2024-05-01T10:00:00.1234567890Z": ten + 123_456,
		"2016-12-31T23:59:60Z":            at("2017-01-01T00:00:00Z"),
		"2017-01-01T00:59:60.5+01:00":     at("2017-01-01T00:00:00Z"),
		"2024-02-29":                      at("2024-02-29T00:00:00Z"),
		"2000-02-29":                      at("2000-02-29T00:00:00Z"),
		"0000-01-01":                      earliest,
		"9999-12-31T23:59:59.999999999Z":  latest,
		"1970-01-01":                      0,
	} {
		if got, ok := ParseTime(s); !ok || got != want {
			t.Errorf("ParseTime(%q) = %s %v, want %s", s, FormatTime(got), ok, FormatTime(want))
		}
	}
	for _, s := range []string{
		"", "now", "0", "1714557600", "2024", "2024-05", "20240501", "24-05-01", "2024-5-1",
		"2024-00-01", "2024-13-01", "2024-05-00", "2024-05-32", "2024-04-31", "2023-02-29", "1900-02-29",
		"2024-05-01T", "2024-05-01T10", "2024-05-01T10:", "2024-05-01T1:00:00Z", "2024-05-01T24:00:00Z",
		"2024-05-01T10:60:00Z", "2024-05-01T10:00:61Z", "2024-05-01T10:00:60Z", "2024-05-01T10:00:00.Z",
		"2024-05-01T10:00:00+2", "2024-05-01T10:00:00+24:00", "2024-05-01T10:00:00+02:60", "2024-05-01T10:00:00+02:0",
		"2024-05-01T10:00:00 02:00", "2024-05-01T10:00:00Zx", "2024-05-01Z", " 2024-05-01", "2024-05-01 ",
		"2024-05-01T10:00:00+-2:00", "-2024-05-01", "+2024-05-01", "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01",
		"２０２４-05-01", "2024-05-01T10:00:00\x00Z",
	} {
		if got, ok := ParseTime(s); ok {
			t.Errorf("ParseTime(%q) = %s, want it refused", s, FormatTime(got))
		}
	}
}

var zone = regexp.MustCompile(`(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2024-05-01", "2024-05-01T10:00:00.5+02:00", "2016-12-31T23:59:60Z", "2024-05-01 10:00", "9999-12-31T23:59:59-00:01", "", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := ParseTime(s)
		// time.Parse lets through one digit of an hour, and offsets of 24 hours and
		// 60 minutes, which RFC 3339 does not.
		if want, err := time.Parse(time.RFC3339Nano, s); err == nil && s[13] == ':' && zone.MatchString(s) && want.UnixMicro() >= earliest && want.UnixMicro() <= latest {
			if !ok || got != want.UnixMicro() {
				t.Fatalf("ParseTime(%q) = %d %v, want %d", s, got, ok, want.UnixMicro())
			}
		}
		if !ok {
			return
		}
		if again, ok := ParseTime(FormatTime(got)); !ok || again != got {
			t.Fatalf("ParseTime(FormatTime(%d)) = %d %v", got, again, ok)
		}
	})
}

// TestAppendStringAtEveryPlace has each byte that is escaped, and a rune, at each
// place of a word, among bytes near those that are escaped.
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
