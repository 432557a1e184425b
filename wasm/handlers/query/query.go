// Package query reads the query parameters of the partner interface.
//
// A parameter that comes more than once is an error, as is one without a value:
// which of two a partner meant cannot be known. Parameters that nobody asks for
// are left alone. "+" is a plus, as in RFC 3986, so that the offset of a time
// may be sent as it is.
package query

import (
	"strings"

	"partneredge/wasm/answer"
)

// Int reads a whole number, brought within low to high; a number of any size
// is read. It is missing when the parameter is not there, and not ok when it is
// no whole number.
func Int(query, name string, missing, low, high int) (n int, ok bool) {
	value, found, ok := Value(query, name)
	if !found || !ok {
		return missing, ok
	}
	digits, negative := strings.CutPrefix(value, "-")
	if !negative {
		digits, _ = strings.CutPrefix(value, "+")
	}
	for i := 0; i < len(digits); i++ {
		c := digits[i]
		if c < '0' || c > '9' {
			return missing, false
		}
		n = min(n*10+int(c-'0'), 1<<20)
	}
	if negative {
		n = -n
	}
	return min(max(n, low), high), digits != ""
}

// Time reads an ISO 8601 time in microseconds since the Unix epoch. found is
// false when the parameter is not there.
func Time(query, name string) (micros int64, found, ok bool) {
	value, found, ok := Value(query, name)
	if !found || !ok {
		return 0, found, ok
	}
	if micros, ok = answer.ParseTime(value); !ok {
		// Forms write the space between date and time as "+".
		micros, ok = answer.ParseTime(strings.Replace(value, "+", " ", 1))
	}
	return micros, true, ok
}

// Value returns the parameter's value with its escapes undone. It is not ok
// when the parameter comes more than once or holds a broken escape.
func Value(query, name string) (value string, found, ok bool) {
	ok = true
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, whole := unescape(rawKey)
		if !whole || key != name {
			continue
		}
		if found {
			ok = false
		}
		found = true
		if value, whole = unescape(rawValue); !whole {
			ok = false
		}
	}
	return value, found, ok
}

// unescape undoes percent encoding; not ok when a % is not followed by two
// hexadecimal digits.
func unescape(s string) (string, bool) {
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
		high, ok1 := nibble(s[i+1])
		low, ok2 := nibble(s[i+2])
		if !ok1 || !ok2 {
			return "", false
		}
		b = append(b, high<<4|low)
		i += 2
	}
	return string(b), true
}

func nibble(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
