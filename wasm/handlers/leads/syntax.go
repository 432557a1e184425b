package leads

import (
	"strings"
	"unicode"
)

// isEmail reports whether s is local@domain: a dot-atom of RFC 5322 with the
// UTF-8 letters of RFC 6531, at most 64 bytes, and a domain of two or more
// labels. Quoted local parts, address literals and comments are refused.
func isEmail(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 || at > 64 {
		return false
	}
	return isDotAtom(s[:at]) && isDomain(s[at+1:])
}

func isDotAtom(s string) bool {
	dot := true // the previous character was a dot; none may be first
	for _, c := range s {
		switch {
		case c == '.':
			if dot {
				return false
			}
			dot = true
			continue
		case c >= 0x80:
			if !isWordRune(c) {
				return false
			}
		case !isAlnum(c) && !strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", c):
			return false
		}
		dot = false
	}
	return !dot
}

// isDomain reports whether s is two or more labels of letters, digits and
// hyphens, in any script, of which the last is not a number.
func isDomain(s string) bool {
	labels, letters := 0, false // letters: the current label has some
	for more := true; more; labels++ {
		var label string
		label, s, more = strings.Cut(s, ".")
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		letters = false
		for _, c := range label {
			switch {
			case c >= '0' && c <= '9' || c == '-':
			case isAlnum(c) || c >= 0x80 && isWordRune(c):
				letters = true
			default:
				return false
			}
		}
	}
	return labels >= 2 && letters
}

// isWordRune reports whether a non-ASCII c is neither white space, invisible nor general
// punctuation.
func isWordRune(c rune) bool {
	return !unicode.IsSpace(c) && !unicode.IsControl(c) && c != unicode.ReplacementChar && (c < 0x200b || c > 0x206f) &&
		!unicode.In(c, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

func isAlnum(c rune) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

const digits = "0123456789"

// isPhone reports whether s is a phone number as people write it: 7 to 15 digits
// (the maximum of E.164) after at most one "+", with spaces, dots, hyphens,
// slashes and parentheses between them, and an optional extension of 1 to 6
// digits after "x", "ext", "ext." or "#".
func isPhone(s string) bool {
	if strings.IndexFunc(s, func(c rune) bool { return c >= 0x80 }) >= 0 {
		return false // below, indexes of lower are used in s
	}
	number, lower := s, strings.ToLower(s)
	for _, mark := range [...]string{"ext.", "ext", "x", "#"} {
		if i := strings.Index(lower, mark); i >= 0 {
			extension := strings.TrimSpace(s[i+len(mark):])
			number = s[:i]
			if extension == "" || len(extension) > 6 || strings.Trim(extension, digits) != "" {
				return false
			}
			break
		}
	}
	number = strings.TrimPrefix(number, "+")
	count := 0
	for i := range len(number) {
		if number[i] >= '0' && number[i] <= '9' {
			count++
		}
	}
	return count >= 7 && count <= 15 && strings.Trim(number, digits+" .-/()") == ""
}
