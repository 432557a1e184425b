package harness

import "testing"

// TestUnits: a line of a figure has four words, so a unit that is not one word is refused.
func TestUnits(t *testing.T) {
	for unit, valid := range map[string]bool{
		"ms": true, "1/s": true, "%": true,
		"": false, "of 12345": false, " ms": false, "ms\n": false,
	} {
		b := New("test")
		refused := func() (refused bool) {
			defer func() { refused = recover() != nil }()
			b.Figure("took", 1, unit)
			return false
		}()
		if kept := len(b.figures) == 1; refused == valid || kept != valid {
			t.Errorf("the unit %q: refused %t, kept %t", unit, refused, kept)
		}
	}
}
