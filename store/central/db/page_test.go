package db

import (
	"testing"

	"partneredge/store/valid"
)

// FuzzCursor: only what Cursor made is read, and as what it was.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", ".", "1.00000000", "nonsense", Cursor("list", "zz"), Cursor("list", ""), "a\x00.12345678"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		if place, err := Place("list", cursor); err == nil && Cursor("list", place) != cursor {
			t.Errorf("%q is read as %q", cursor, place)
		}
		if place, err := Place("list", Cursor("list", "x"+cursor)); (err == nil) != valid.Text(cursor) || err == nil && place != "x"+cursor {
			t.Errorf("%q: %q, %v", cursor, place, err)
		}
	})
}
