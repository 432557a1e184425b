package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"partneredge/store"
	"partneredge/store/logtest"
)

// boxBytes is an outbox's file with items a, b and c, of which b is removed,
// and how many bytes there were after each step.
func boxBytes(t *testing.T) (data []byte, ends []int) {
	t.Helper()
	for _, id := range []string{"lead_a", "lead_b", "lead_c"} {
		data = appendRecord(data, recordLead, id, bodyOf(id))
		ends = append(ends, len(data))
	}
	data = appendRecord(data, recordGone, "lead_b", nil)
	return data, append(ends, len(data))
}

var boxStates = [][]string{nil, {"lead_a"}, {"lead_a", "lead_b"}, {"lead_a", "lead_b", "lead_c"}, {"lead_a", "lead_c"}}

func TestOutboxCutAtEveryByte(t *testing.T) {
	data, ends := boxBytes(t)
	path := filepath.Join(t.TempDir(), "outbox")
	for size := range len(data) + 1 {
		for _, zeroes := range []int{0, 100} {
			write(t, path, append(data[:size:size], make([]byte, zeroes)...))
			log, text := logtest.New()
			o := openBox(t, path, 1<<20, log)
			whole := 0
			for whole < len(ends) && ends[whole] <= size {
				whole++
			}
			expect(t, o, boxStates[whole]...)
			if text.Lines() > 0 {
				t.Fatalf("cut to %d bytes, %d zeroes behind: %s", size, zeroes, text)
			}
			add(t, o, "lead_z")
			if err := o.Close(); err != nil {
				t.Fatal(err)
			}
			o = openBox(t, path, 1<<20, nil)
			expect(t, o, append(boxStates[whole][:len(boxStates[whole]):len(boxStates[whole])], "lead_z")...)
			_ = o.Close()
			removeGlob(t, path+".damaged-*")
		}
	}
}

// A byte that changes costs at most the item it is in: those behind it are
// still there, and the file is set aside.
func TestOutboxDamagedAtEveryByte(t *testing.T) {
	data, ends := boxBytes(t)
	path := filepath.Join(t.TempDir(), "outbox")
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			hurt := bytes.Clone(data)
			hurt[i] ^= flip
			write(t, path, hurt)
			log, text := logtest.New()
			o := openBox(t, path, 1<<20, log)
			got := fmt.Sprint(pending(t, o))
			which := 0
			for ends[which] <= i {
				which++
			}
			want := [...]string{"[lead_c]", "[lead_a lead_c]", "[lead_a]", "[lead_a lead_b lead_c]"}[which]
			if got != want {
				t.Fatalf("byte %d ^ %#x: %s wait, want %s", i, flip, got, want)
			}
			aside, _ := filepath.Glob(path + ".damaged-*")
			if which < 3 && len(aside) != 1 || text.Lines() != len(aside) {
				t.Fatalf("byte %d ^ %#x: %d files set aside, log: %s", i, flip, len(aside), text)
			}
			if len(aside) == 1 {
				if kept, err := os.ReadFile(aside[0]); err != nil || !bytes.Equal(kept, hurt) {
					t.Fatalf("byte %d: what was set aside is not the file: %v", i, err)
				}
			}
			_ = o.Close()
			removeGlob(t, path+".damaged-*")
		}
	}
}

func FuzzOutboxFile(f *testing.F) {
	whole := appendRecord(nil, recordLead, "lead_a", bodyOf("lead_a"))
	f.Add(whole)
	f.Add(appendRecord(whole, recordGone, "lead_a", nil))
	f.Add(append([]byte("leadlead"), whole...))
	f.Add(append(whole[:len(whole)-3:len(whole)-3], whole...))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "outbox")
		write(t, path, data)
		o := openBox(t, path, 1<<30, nil)
		before, err := o.Pending(1<<20, 1<<30, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Append(t.Context(), Item{"lead_new", []byte("x")}); err != nil && !errors.Is(err, store.ErrConflict) {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		log, text := logtest.New()
		o = openBox(t, path, 1<<30, log)
		if o.Len() < len(before) || text.Lines() > 0 {
			t.Fatalf("%d items before, %d after, log: %s", len(before), o.Len(), text)
		}
		_ = o.Close()
	})
}
