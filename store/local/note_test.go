package local

import "testing"

// TestNoteNamesWhatIsHeld: of many changes those of held records are named, and one of a
// record that is on its way makes it stale when it comes in.
func TestNoteNamesWhatIsHeld(t *testing.T) {
	s := openTest(t, Config{})
	put(t, s.Keys, "a", "key_a", "good", 1)
	refs := []string{"key_x", "key_a", "acc_other", "key_b"}
	held := s.Keys.Note(len(refs), func(i int) (string, int64, bool) { return refs[i], int64(10 + i), refs[i] != "acc_other" })
	if len(held) != 1 || held[0] != 1 {
		t.Errorf("held are %v, want the one at 1", held)
	}
	if rec := put(t, s.Keys, "b", "key_b", "good", 12); !rec.Stale() {
		t.Error("a record from before a change that was noted counts as current")
	}
	if rec := put(t, s.Keys, "b", "key_b", "good", 13); rec.Stale() {
		t.Error("a record that includes the change counts as stale")
	}
	if rec := put(t, s.Keys, "c", "acc_other", "good", 1); rec.Stale() {
		t.Error("a change of another replica's record makes one of this stale")
	}
}
