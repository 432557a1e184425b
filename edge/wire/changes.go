package wire

import (
	"math/bits"
	"slices"
	"strconv"

	"partneredge/store"
)

// Changes go to every node, which holds few of the records that they name, so their
// two messages are written and read by this file, at some 30 ns a change:
//
//	{"v":2,"changes":[{"seq":7,"kind":"key","ref":"key_01…","gone":true}],"latest":7,"history":"his_01…"}
//
// with "reset":true at the end of a ChangesReply. Changed has a short form as well, in
// short.go. Whatever has another form, such as another order of the fields or an escape
// in a text, is left to encoding/json, which reads and writes the same messages.

// fast is a message that this package writes and reads without encoding/json.
type fast interface {
	// appendFast returns b with the message's JSON. ok is false for what it does not
	// write.
	appendFast(b []byte) (_ []byte, ok bool)
	// parseFast reads a message in the form that appendFast writes. When it returns
	// false the message may be half read.
	parseFast(text string) bool
}

func (m *Changed) appendFast(b []byte) (_ []byte, ok bool) {
	if m.Short && shortable(m.Changes) {
		b, ok = appendMessage(b, &m.Head, appendShort, m.Changes, m.Latest, m.History)
	} else {
		b, ok = appendMessage(b, &m.Head, appendChanges, m.Changes, m.Latest, m.History)
	}
	return append(b, '}'), ok
}

func (m *Changed) parseFast(text string) bool {
	s := scanner{rest: text}
	m.V = s.version()
	if s.has(`,"first":`) {
		m.First = s.number()
		s.literal(`,"refs":"`)
		m.Refs = s.text()
		if s.bad || !m.expand() {
			return false
		}
	} else {
		m.Changes = s.changes(m.Changes[:0])
	}
	m.Latest, m.History = s.end()
	s.literal("}")
	return !s.bad && s.rest == ""
}

func (m *ChangesReply) appendFast(b []byte) ([]byte, bool) {
	b, ok := appendMessage(b, &m.Head, appendChanges, m.Changes, m.Latest, m.History)
	if m.Reset {
		b = append(b, `,"reset":true`...)
	}
	return append(b, '}'), ok
}

func (m *ChangesReply) parseFast(text string) bool {
	s := scanner{rest: text}
	m.V = s.version()
	m.Changes = s.changes(m.Changes[:0])
	m.Latest, m.History = s.end()
	m.Reset = s.has(`,"reset":true`)
	s.literal("}")
	return !s.bad && s.rest == ""
}

// appendMessage returns b with a message but for its end, whose changes list writes.
func appendMessage(b []byte, h *Head, list func([]byte, []store.Change) ([]byte, bool), changes []store.Change, latest int64, history string) (_ []byte, ok bool) {
	if h.Failure != "" || h.Trace != "" || !plain(history) {
		return b, false
	}
	b = slices.Grow(b, 128+96*len(changes))
	b = strconv.AppendInt(append(b, `{"v":`...), int64(h.V), 10)
	if len(changes) > 0 {
		if b, ok = list(b, changes); !ok {
			return b, false
		}
	}
	b = strconv.AppendInt(append(b, `,"latest":`...), latest, 10)
	if history != "" {
		b = append(append(append(b, `,"history":"`...), history...), '"')
	}
	return b, true
}

func appendChanges(b []byte, changes []store.Change) (_ []byte, ok bool) {
	b = append(b, `,"changes":[`...)
	for i := range changes {
		c := &changes[i]
		if !plain(string(c.Kind)) || !plain(c.Ref) {
			return b, false
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"seq":`...), c.Seq, 10)
		b = append(append(b, `,"kind":"`...), c.Kind...)
		b = append(append(b, `","ref":"`...), c.Ref...)
		b = append(b, '"')
		if c.Gone {
			b = append(b, `,"gone":true`...)
		}
		b = append(b, '}')
	}
	return append(b, ']'), true
}

// plain reports whether a text is the same inside quotes in JSON.
func plain(text string) bool { return plainUntil(text) == len(text) }

// plainUntil returns how many bytes of a text come before the first special one. It looks
// at eight at a time, as texts are most of what there is to read.
func plainUntil(text string) (i int) {
	for ; i+8 <= len(text); i += 8 {
		s := text[i : i+8]
		if found := specialBits(uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && !special[text[i]] {
		i++
	}
	return i
}

// specialBits returns the highest bit of each of eight bytes that is special, and perhaps
// those of bytes above it: a special byte carries or borrows one when it shows, others do
// not.
func specialBits(eight uint64) uint64 {
	const each, highest = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^'"'*each, eight^'\\'*each // 0 where it is one
	return (eight | (eight + each) | (eight - ' '*each) | (quote - each) | (backslash - each)) & highest
}

// special are the bytes that JSON writes otherwise, or that need a closer look.
var special = func() (is [256]bool) {
	for c := range is {
		is[c] = c < ' ' || c >= 0x7f || c == '"' || c == '\\'
	}
	return is
}()

// scanner reads JSON of one form. Once bad, it stays so.
type scanner struct {
	rest string
	bad  bool
}

func (s *scanner) has(text string) bool {
	if len(s.rest) < len(text) || s.rest[:len(text)] != text {
		return false
	}
	s.rest = s.rest[len(text):]
	return true
}

func (s *scanner) literal(text string) {
	if !s.has(text) {
		s.bad = true
	}
}

// number reads an integer of at most 18 digits without a sign.
func (s *scanner) number() (n int64) {
	i := 0
	for i < len(s.rest) && s.rest[i] >= '0' && s.rest[i] <= '9' {
		n = 10*n + int64(s.rest[i]-'0')
		i++
	}
	if i == 0 || i > 18 || i > 1 && s.rest[0] == '0' {
		s.bad = true
		return 0
	}
	s.rest = s.rest[i:]
	return n
}

// text reads a plain text and the quote behind it.
func (s *scanner) text() string {
	i := plainUntil(s.rest)
	if i == len(s.rest) || s.rest[i] != '"' {
		s.bad = true
		return ""
	}
	text := s.rest[:i]
	s.rest = s.rest[i+1:]
	return text
}

// leastChange is about how many bytes a change takes at least.
const leastChange = 60

// version reads what messages begin with.
func (s *scanner) version() int {
	s.literal(`{"v":`)
	return int(s.number())
}

// changes reads changes, if there are any, into a slice that is used again.
func (s *scanner) changes(into []store.Change) (changes []store.Change) {
	if !s.has(`,"changes":[`) {
		return nil
	}
	changes = slices.Grow(into, len(s.rest)/leastChange+1)
	for !s.bad {
		s.literal(`{"seq":`)
		c := store.Change{Seq: s.number()}
		s.literal(`,"kind":"`)
		c.Kind = store.ChangeKind(s.text())
		s.literal(`,"ref":"`)
		c.Ref = s.text()
		c.Gone = s.has(`,"gone":true`)
		s.literal("}")
		changes = append(changes, c)
		if !s.has(",") {
			break
		}
	}
	s.literal("]")
	return changes
}

// end reads what follows the changes.
func (s *scanner) end() (latest int64, history string) {
	s.literal(`,"latest":`)
	latest = s.number()
	if s.has(`,"history":"`) {
		history = s.text()
	}
	return latest, history
}
