package answer

import (
	"unicode/utf8"
	"unsafe"
)

const hex = "0123456789abcdef"

// AppendString adds s as a JSON string (RFC 8259, section 7). Each byte of s
// that is not UTF-8 becomes U+FFFD, so the result is valid whatever s holds.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	valid := isASCII(s) || utf8.ValidString(s)
	done := 0 // s[:done] is written
	for i := 0; i < len(s); {
		if valid {
			i = plain(s, i)
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

// escaped tells whether a byte must not stand in a JSON string as it is.
func escaped(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

// In a guest a turn of a loop is dear, so bytes are looked at eight at a time.
const (
	lowest  = 0x0101010101010101
	highest = 0x8080808080808080
)

// word is the eight bytes of s at i, which must be there.
func word(s string, i int) uint64 {
	return *(*uint64)(unsafe.Add(unsafe.Pointer(unsafe.StringData(s)), i))
}

func isASCII(s string) bool {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if word(s, i)&highest != 0 {
			return false
		}
	}
	for ; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plain is where the first byte of s from i on is that must be escaped, or
// len(s).
func plain(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		w := word(s, i)
		// A byte's highest bit is set in x-n, and not in x, where it is below n; a
		// byte above may be taken for one as well, which the loop below sorts out.
		quote, backslash := w^'"'*lowest, w^'\\'*lowest
		if ((w-' '*lowest)&^w|(quote-lowest)&^quote|(backslash-lowest)&^backslash)&highest != 0 {
			break
		}
	}
	for ; i < len(s) && !escaped(s[i]); i++ {
	}
	return i
}
