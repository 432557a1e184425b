package wire

import (
	"slices"
	"strconv"
	"strings"

	"partneredge/store"
)

// The short form of Changed takes a third of the bytes. It numbers its changes from first
// on, and writes each as a letter and the ref, with a space between two of them:
//
//	{"v":2,"first":7,"refs":"Kkey_01… facc_01…","latest":8,"history":"his_01…"}
//
// The letter is that of the kind, a capital for what is gone.

// shortKinds are the kinds of changes, by their letters.
var shortKinds = [256]store.ChangeKind{
	'k': store.ChangeKey, 'p': store.ChangeProfile, 'i': store.ChangeInsights, 'f': store.ChangeFirings,
	'K': store.ChangeKey, 'P': store.ChangeProfile, 'I': store.ChangeInsights, 'F': store.ChangeFirings,
}

// letterOf returns the letter of a change, 0 of one that has none.
func letterOf(c *store.Change) byte {
	if c.Kind == "" || shortKinds[c.Kind[0]] != c.Kind {
		return 0
	}
	if c.Gone {
		return c.Kind[0] - 'a' + 'A'
	}
	return c.Kind[0]
}

// shortable reports whether changes have a short form.
func shortable(changes []store.Change) bool {
	if len(changes) == 0 || changes[0].Seq > maxFirst {
		return false
	}
	for i := range changes {
		c := &changes[i]
		if c.Seq < 1 || c.Seq != changes[0].Seq+int64(i) || letterOf(c) == 0 || c.Ref == "" || strings.IndexByte(c.Ref, ' ') >= 0 {
			return false
		}
	}
	return true
}

// appendShort writes changes in short form, which they must have.
func appendShort(b []byte, changes []store.Change) (_ []byte, ok bool) {
	b = strconv.AppendInt(append(b, `,"first":`...), changes[0].Seq, 10)
	b = append(b, `,"refs":"`...)
	for i := range changes {
		c := &changes[i]
		if !plain(c.Ref) {
			return b, false
		}
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(append(b, letterOf(c)), c.Ref...)
	}
	return append(b, '"'), true
}

// maxFirst bounds First, so that no number after it overflows.
const maxFirst = 1 << 62

func (m *Changed) expand() bool {
	if m.Refs == "" {
		return m.First == 0
	}
	if m.First < 1 || m.First > maxFirst {
		return false
	}
	m.Changes = slices.Grow(m.Changes[:0], strings.Count(m.Refs, " ")+1)
	for seq, rest, more := m.First, m.Refs, true; more; seq++ {
		var one string
		one, rest, more = strings.Cut(rest, " ")
		if len(one) < 2 || shortKinds[one[0]] == "" {
			return false
		}
		m.Changes = append(m.Changes, store.Change{Seq: seq, Kind: shortKinds[one[0]], Ref: one[1:], Gone: one[0] < 'a'})
	}
	m.First, m.Refs = 0, ""
	return true
}
