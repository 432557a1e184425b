package isotime

import (
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// format returns what Append appends.
func format(t int64) string { return string(Append(nil, t)) }

func TestAppend(t *testing.T) {
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
		if got := format(tt.micros); got != tt.want {
			t.Errorf("Append(%d) = %s, want %s", tt.micros, got, tt.want)
		}
	}
}

// TestProperties compares with the standard library at any moment of the calendar.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.Int64Range(earliest, latest).Draw(t, "micros")
		want := time.UnixMicro(micros).UTC()
		s := format(micros)
		if s != want.Format("2006-01-02T15:04:05.000000Z") {
			t.Fatalf("Append(%d) = %s, want %s", micros, s, want)
		}
		if got, ok := Parse(s); !ok || got != micros {
			t.Fatalf("Parse(%s) = %d %v, want %d", s, got, ok, micros)
		}
		minutes := rapid.IntRange(-1439, 1439).Draw(t, "offset")
		there := want.In(time.FixedZone("", minutes*60))
		if there.Year() < 0 || there.Year() > 9999 {
			return
		}
		if got, ok := Parse(there.Format(time.RFC3339Nano)); !ok || got != micros {
			t.Fatalf("Parse(%s) = %d %v, want %d", there.Format(time.RFC3339Nano), got, ok, micros)
		}
	})
}

func TestParse(t *testing.T) {
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
		if got, ok := Parse(s); !ok || got != want {
			t.Errorf("Parse(%q) = %s %v, want %s", s, format(got), ok, format(want))
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
		if got, ok := Parse(s); ok {
			t.Errorf("Parse(%q) = %s, want it refused", s, format(got))
		}
	}
}

func TestParseUp(t *testing.T) {
	for s, want := range map[string]string{
		"2024-05-01":                            "2024-05-01T00:00:00.000000Z",
		"2024-05-01T10:00:00.5Z":                "2024-05-01T10:00:00.500000Z",
		"2024-05-01T10:00:00.123456Z":           "2024-05-01T10:00:00.123456Z",
		"2024-05-01T10:00:00.123456000Z":        "2024-05-01T10:00:00.123456Z",
		"2024-05-01T10:00:00.1234560001Z":       "2024-05-01T10:00:00.123457Z",
		"2024-05-01T12:00:00.123456999+02:00":   "2024-05-01T10:00:00.123457Z",
		"2024-12-31T23:59:59.9999991Z":          "2025-01-01T00:00:00.000000Z",
		"1960-01-01T00:00:00.0000001Z":          "1960-01-01T00:00:00.000001Z",
		"2016-12-31T23:59:60.0000001Z":          "2017-01-01T00:00:00.000000Z",
		"9999-12-31T23:59:59.999999999Z":        "9999-12-31T23:59:59.999999Z",
		"2024-05-01T10:00:00.00000000000000001": "2024-05-01T10:00:00.000001Z",
	} {
		if got, ok := ParseUp(s); !ok || format(got) != want {
			t.Errorf("ParseUp(%q) = %s %v, want %s", s, format(got), ok, want)
		}
	}
	for _, s := range []string{"", "now", "2024-05-01T10:00:00.1234567", "2024-05-01T10:00:00.1234567x"} {
		_, parsed := Parse(s)
		if got, ok := ParseUp(s); ok != parsed {
			t.Errorf("ParseUp(%q) = %s %v, where Parse reports %v", s, format(got), ok, parsed)
		}
	}
}

var zone = regexp.MustCompile(`(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

func FuzzParse(f *testing.F) {
	for _, s := range []string{"2024-05-01", "2024-05-01T10:00:00.5+02:00", "2016-12-31T23:59:60Z", "2024-05-01 10:00", "9999-12-31T23:59:59-00:01", "", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := Parse(s)
		// time.Parse lets through one digit of an hour, and offsets of 24 hours and
		// 60 minutes, which RFC 3339 does not.
		if want, err := time.Parse(time.RFC3339Nano, s); err == nil && s[13] == ':' && zone.MatchString(s) && want.UnixMicro() >= earliest && want.UnixMicro() <= latest {
			if !ok || got != want.UnixMicro() {
				t.Fatalf("Parse(%q) = %d %v, want %d", s, got, ok, want.UnixMicro())
			}
		}
		if !ok {
			return
		}
		if again, ok := Parse(format(got)); !ok || again != got {
			t.Fatalf("Parse(Append(%d)) = %d %v", got, again, ok)
		}
	})
}
