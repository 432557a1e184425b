package jsonbody

import (
	"strconv"
	"unicode/utf8"

	"partneredge/wasm/percent"
)

// MaxDepth bounds the nesting of objects and arrays. Bodies of the contract have
// a depth of 2.
const MaxDepth = 16

// maxFreeFormDepth is MaxDepth of an object that its sender fills as they like.
const maxFreeFormDepth = 64

// Valid reports whether b is one JSON text (RFC 8259) in UTF-8, at most MaxDepth
// deep, whose strings any store can hold: they contain no NUL and no half of a
// surrogate pair, escaped or not. It allocates nothing.
func Valid(b []byte) bool {
	s := scanner{b: b, most: MaxDepth}
	return s.whole()
}

// IsFreeForm reports whether b is an object that may be handed to others as it is: any
// reader of JSON can read it. It is Valid but for its depth, which may be 64, and has no
// number beyond the range of a float64, which many readers refuse.
func IsFreeForm(b []byte) bool {
	s := scanner{b: b, most: maxFreeFormDepth, inRange: true}
	s.space()
	return s.peek() == '{' && s.whole()
}

// scanner walks over b. Each method reads one element at s.at, moves past it,
// and reports whether it was there.
type scanner struct {
	b       []byte
	at      int
	most    int  // depth
	inRange bool // numbers must fit a float64
}

// whole reads one value that ends where s.b does.
func (s *scanner) whole() bool {
	if !utf8.Valid(s.b) {
		return false
	}
	s.space()
	if !s.value(0) {
		return false
	}
	s.space()
	return s.at == len(s.b)
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
		return depth < s.most && s.list('}', depth, true)
	case '[':
		return depth < s.most && s.list(']', depth, false)
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
	from := s.at
	if !s.digitsAndExponent() {
		return false
	}
	if !s.inRange {
		return true
	}
	_, err := strconv.ParseFloat(string(s.b[from:s.at]), 64)
	return err == nil
}

func (s *scanner) digitsAndExponent() bool {
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
		digit := percent.Nibble(s.peek())
		if digit > 15 {
			return 0, false
		}
		unit = unit<<4 | int(digit)
		s.at++
	}
	return unit, true
}
