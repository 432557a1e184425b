package answer

import (
	"unicode/utf8"
	"unsafe"
)

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string (RFC 8259, section 7). Each byte of s
// that is not UTF-8 becomes U+FFFD, so the result is always valid.
func AppendString(b []byte, s string) []byte {
	if isPlain(s) {
		if n := len(b) + len(s) + 2; n <= cap(b) {
			at := len(b)
			b = b[:n]
			b[at] = '"'
			copy(b[at+1:], s)
			b[n-1] = '"'
			return b
		}
	}
	return appendEscaped(b, s, utf8.ValidString(s))
}

// AppendText is AppendString for a text that is UTF-8 for sure, as those of the host's
// records are: to examine 2 MB of text that is not ASCII takes a guest longer than all else
// that it does with it.
func AppendText(b []byte, s string) []byte { return appendEscaped(b, s, true) }

// appendEscaped appends any string; valid says that it is UTF-8 for sure.
func appendEscaped(b []byte, s string, valid bool) []byte {
	b = append(b, '"')
	done := 0 // s[:done] is in b
	for i := 0; i < len(s); {
		if valid {
			i = nextEscaped(s, i)
			if i == len(s) {
				break
			}
		}
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[done:i]...), "\uFFFD"...)
				done = i + 1
			}
			i += n
			continue
		}
		if !escaped(c) {
			i++
			continue
		}
		b = append(b, s[done:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		done = i
	}
	return append(append(b, s[done:]...), '"')
}

// escaped reports whether a JSON string must not contain c as it is.
func escaped(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

// A loop is slow in a guest, so bytes are examined eight at a time.
const (
	lowest  = 0x0101010101010101
	highest = 0x8080808080808080
)

// word returns the eight bytes of s at i. There must be eight.
func word(s string, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.StringData(s)), i))
}

// isPlain reports whether s is ASCII that needs no escaping, as most strings are. Where a byte
// borrows it may report false of one that is.
func isPlain(s string) bool {
	found := uint64(0)
	if len(s) < 8 {
		for i := range len(s) {
			if s[i] >= utf8.RuneSelf || escaped(s[i]) {
				return false
			}
		}
		return true
	}
	for i := 0; i < len(s)-8; i += 8 {
		w := word(s, i)
		found |= w | mustEscape(w)
	}
	last := word(s, len(s)-8)
	return (found|last|mustEscape(last))&highest == 0
}

// mustEscape returns a word with the highest bit of each byte of w set that must be
// escaped. If a byte of w is below n, its highest bit is set in w-n and not in w. By the
// borrow the byte above may look so too.
func mustEscape(w uint64) uint64 {
	quote, backslash := w^'"'*lowest, w^'\\'*lowest
	return (w-' '*lowest)&^w | (quote-lowest)&^quote | (backslash-lowest)&^backslash
}

// nextEscaped returns the index of the first byte of s from i on that must be
// escaped, or len(s).
func nextEscaped(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		if mustEscape(word(s, i))&highest != 0 {
			break // or only looks so; the loop below examines it
		}
	}
	for ; i < len(s) && !escaped(s[i]); i++ {
	}
	return i
}
