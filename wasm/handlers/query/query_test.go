package query

import (
	"net/url"
	"strconv"
	"testing"
)

func TestInt(t *testing.T) {
	for _, tt := range []struct {
		query string
		n     int
		ok    bool
	}{
		{"", 10, true}, {"a=1", 10, true}, {"Limit=3", 10, true}, {"limits=3", 10, true},
		{"limit=3", 3, true}, {"limit=+3", 3, true}, {"limit=003", 3, true}, {"limit=50", 50, true}, {"limit=51", 50, true},
		{"limit=0", 1, true}, {"limit=-0", 1, true}, {"limit=-3", 1, true},
		{"limit=18446744073709551617", 50, true}, {"limit=-18446744073709551617", 1, true},
		{"a=b&limit=7&c", 7, true}, {"&&limit=7&", 7, true}, {"%6cimit=7", 7, true}, {"limit=%37", 7, true}, {"%zz=1&limit=7", 7, true},
		{"limit", 10, false}, {"limit=", 10, false}, {"limit=-", 1, false}, {"limit=+", 1, false}, {"limit=x", 10, false},
		{"limit=1.0", 10, false}, {"limit=1e1", 10, false}, {"limit= 1", 10, false}, {"limit=1%00", 10, false},
		{"limit=%3", 10, false}, {"limit=%3g", 10, false}, {"limit=1=2", 10, false}, {"limit=1;2", 10, false}, {"limit=٣", 10, false},
		{"limit=1&limit=1", 10, false}, {"limit=1&%6Cimit=1", 10, false}, {"limit=%zz&limit=1", 10, false},
	} {
		n, ok := Int(tt.query, "limit", 10, 1, 50)
		if ok != tt.ok || ok && n != tt.n {
			t.Errorf("%q: %d, %t, want %d, %t", tt.query, n, ok, tt.n, tt.ok)
		}
	}
}

func TestTime(t *testing.T) {
	const noon = 1_740_830_400_000_000 // 2025-03-01T12:00:00Z
	for _, tt := range []struct {
		query     string
		micros    int64
		found, ok bool
	}{
		{"", 0, false, true},
		{"t=2025-03-01T12:00:00Z", noon, true, true},
		{"t=2025-03-01T12%3A00%3a00.000001Z", noon + 1, true, true},
		{"t=2025-03-01T14:00:00+02:00", noon, true, true},
		{"t=2025-03-01T14:00:00%2B02:00", noon, true, true},
		{"t=2025-03-01+12:00:00", noon, true, true},
		{"t=2025-03-01+14:00:00%2B02:00", noon, true, true},
		{"t=2025-03-01+14:00:00+02:00", noon, true, true},
		{"t=1970-01-01", 0, true, true},
		{"t=", 0, true, false}, {"t", 0, true, false}, {"t=now", 0, true, false}, {"t=%zz", 0, true, false},
		{"t=2025-03-01&t=2025-03-01", 0, true, false},
		{"t=2025-03-01T12:00:00 02:00", 0, true, false},
	} {
		micros, found, ok := Time(tt.query, "t")
		if found != tt.found || ok != tt.ok || ok && micros != tt.micros {
			t.Errorf("%q: %d, %t, %t, want %d, %t, %t", tt.query, micros, found, ok, tt.micros, tt.found, tt.ok)
		}
	}
}

// FuzzValue holds Value against net/url, which differs in that it reads "+" as
// a space and ";" as an error.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{"", "limit=5", "limit=%35&x", "since=2025-03-01T00:00:00%2B02:00", "limit=1&limit=2", "%6cimit=3", "limit=%", "=&&=", "limit"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, q string) {
		value, found, ok := Value(q, "limit")
		n, _ := Int(q, "limit", 10, 1, 50)
		if n < 1 || n > 50 {
			t.Fatalf("limit %d of %q", n, q)
		}
		plain := make([]byte, 0, len(q))
		for i := range len(q) {
			switch q[i] {
			case '+':
				plain = append(plain, "%2B"...)
			case ';':
				plain = append(plain, "%3B"...)
			default:
				plain = append(plain, q[i])
			}
		}
		theirs, err := url.ParseQuery(string(plain))
		if err != nil {
			return // a broken escape, somewhere
		}
		want := theirs["limit"]
		if found != (len(want) > 0) || ok != (len(want) <= 1) || len(want) == 1 && value != want[0] {
			t.Fatalf("%q: %q, %t, %t, and net/url reads %q", q, value, found, ok, want)
		}
		if len(want) == 1 {
			if exact, err := strconv.Atoi(want[0]); err == nil && n != min(max(exact, 1), 50) {
				t.Fatalf("%q: %d, want %d", q, n, exact)
			}
		}
	})
}
