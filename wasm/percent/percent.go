// Package percent decodes the percent-encoding of URLs (RFC 3986). Package
// net/url has more than modules need, and reads "+" as a space.
package percent

import "strings"

// Decode replaces each %XX of s by the byte that it stands for. ok is false if
// a % is not followed by two hexadecimal digits.
func Decode(s string) (decoded string, ok bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := Nibble(s[i+1]), Nibble(s[i+2])
		if high > 15 || low > 15 {
			return "", false
		}
		b = append(b, high<<4|low)
		i += 2
	}
	return string(b), true
}

// Nibble returns the value of a hexadecimal digit, 16 if c is none.
func Nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 16
}
