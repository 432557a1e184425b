package jsonbody

import "unicode/utf8"

// MaxDepth is how deep objects and arrays may lie in each other. What the
// contract asks for is 2 deep.
const MaxDepth = 16

// Valid tells whether b is one JSON text as RFC 8259 draws it, in UTF-8, at
// most MaxDepth deep, whose strings are all text that any store can hold: no
// NUL and no half of a surrogate pair, escaped or not. It allocates nothing.
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

// scanner walks over b. Its methods read one thing at s.at, step past it and
// tell whether it was there.
type scanner struct {
	b  []byte
	at int
}

// peek is the byte at s.at, 0 at the end: no rule below takes a 0.
func (s *scanner) peek() byte {
	if s.at < len(s.b) {
		return s.b[s.at]
	}
	return 0
}

func (s *scanner) take(c byte) bool {
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

// list is an object or an array, up to the closing byte.
func (s *scanner) list(closing byte, depth int, named bool) bool {
	s.at++
	s.space()
	if s.take(closing) {
		return true
	}
	for {
		if named {
			if !s.text() {
				return false
			}
			s.space()
			if !s.take(':') {
				return false
			}
			s.space()
		}
		if !s.value(depth + 1) {
			return false
		}
		s.space()
		if s.take(closing) {
			return true
		}
		if !s.take(',') {
			return false
		}
		s.space()
	}
}

func (s *scanner) word(w string) bool {
	for i := 0; i < len(w); i++ {
		if !s.take(w[i]) {
			return false
		}
	}
	return true
}

func (s *scanner) number() bool {
	s.take('-')
	if !s.take('0') && !s.digits() {
		return false
	}
	if s.take('.') && !s.digits() {
		return false
	}
	if s.take('e') || s.take('E') {
		if !s.take('+') {
			s.take('-')
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
	if !s.take('"') {
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
		if !s.take('\\') || !s.take('u') {
			return false
		}
		low, ok := s.unit()
		return ok && low >= 0xdc00 && low < 0xe000
	}
	return false
}

// unit is the four hexadecimal digits of one UTF-16 code unit.
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
