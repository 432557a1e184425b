package jsonbody

import "unicode/utf8"

// MaxDepth bounds the nesting of objects and arrays. Bodies of the contract have
// a depth of 2.
const MaxDepth = 16

// Valid reports whether b is one JSON text (RFC 8259) in UTF-8, at most MaxDepth
// deep, whose strings any store can hold: they contain no NUL and no half of a
// surrogate pair, escaped or not. It allocates nothing.
func Valid(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	s := scanner{b: b}
	s.space()
	if !s.value(0) {
		return false
	}
	s.space()
	return s.at == len(b)
}

// scanner walks over b. Each method reads one element at s.at, moves past it,
// and reports whether it was there.
type scanner struct {
	b  []byte
	at int
}

// peek returns the byte at s.at, 0 at the end. No element contains a 0.
func (s *scanner) peek() byte {
	if s.at < len(s.b) {
		return s.b[s.at]
	}
	return 0
}

func (s *scanner) accept(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) space() {
	for {
		switch s.peek() {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) value(depth int) bool {
	switch s.peek() {
	case '{':
		return depth < MaxDepth && s.list('}', depth, true)
	case '[':
		return depth < MaxDepth && s.list(']', depth, false)
	case '"':
		return s.text()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// list reads the rest of an object (named) or array, up to the closing byte.
func (s *scanner) list(closing byte, depth int, named bool) bool {
	s.at++
	s.space()
	if s.accept(closing) {
		return true
	}
	for {
		if named {
			if !s.text() {
				return false
			}
			s.space()
			if !s.accept(':') {
				return false
			}
			s.space()
		}
		if !s.value(depth + 1) {
			return false
		}
		s.space()
		if s.accept(closing) {
			return true
		}
		if !s.accept(',') {
			return false
		}
		s.space()
	}
}

func (s *scanner) word(w string) bool {
	for i := 0; i < len(w); i++ {
		if !s.accept(w[i]) {
			return false
		}
	}
	return true
}

func (s *scanner) number() bool {
	s.accept('-')
	if !s.accept('0') && !s.digits() {
		return false
	}
	if s.accept('.') && !s.digits() {
		return false
	}
	if s.accept('e') || s.accept('E') {
		if !s.accept('+') {
			s.accept('-')
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	from := s.at
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.at > from
}

func (s *scanner) text() bool {
	if !s.accept('"') {
		return false
	}
	for {
		switch c := s.peek(); {
		case c == '"':
			s.at++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < ' ':
			return false
		default:
			s.at++
		}
	}
}

func (s *scanner) escape() bool {
	s.at++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at++
		return true
	case 'u':
		s.at++
		unit, ok := s.unit()
		switch {
		case !ok || unit == 0 || unit >= 0xdc00 && unit < 0xe000:
			return false
		case unit < 0xd800 || unit >= 0xe000:
			return true
		}
		if !s.accept('\\') || !s.accept('u') {
			return false
		}
		low, ok := s.unit()
		return ok && low >= 0xdc00 && low < 0xe000
	}
	return false
}

// unit reads the four hexadecimal digits of a UTF-16 code unit.
func (s *scanner) unit() (unit int, ok bool) {
	for range 4 {
		c := s.peek()
		switch {
		case c >= '0' && c <= '9':
			unit = unit<<4 | int(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			unit = unit<<4 | int(c|0x20-'a'+10)
		default:
			return 0, false
		}
		s.at++
	}
	return unit, true
}
