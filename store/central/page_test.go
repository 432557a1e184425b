package central

import "testing"

// FuzzCursor: only what mark made is read, and as what it was.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", ".", "1.00000000", "nonsense", mark("list", "zz"), mark("list", ""), "a\x00.12345678"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		if place, err := unmark("list", cursor); err == nil && mark("list", place) != cursor {
			t.Errorf("%q is read as %q", cursor, place)
		}
		if place, err := unmark("list", mark("list", "x"+cursor)); (err == nil) != validText(cursor) || err == nil && place != "x"+cursor {
			t.Errorf("%q: %q, %v", cursor, place, err)
		}
	})
}
