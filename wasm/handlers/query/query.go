// Package query parses the query parameters of the partner interface.
//
// A parameter that is repeated or has no value is an error, as it would be a
// guess which value the partner meant. Unknown parameters are ignored. "+" is a
// plus, as in RFC 3986, so that the offset of a time may be sent unescaped.
package query

import (
	"strings"

	"partneredge/wasm/isotime"
	"partneredge/wasm/percent"
)

// Int parses an integer of any size and limits it to the range low to high. It
// returns missing if the parameter is absent. ok is false if the value is no
// integer.
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

// Time parses an ISO 8601 time to microseconds since the Unix epoch. What is finer
// is dropped, as an exclusive lower bound needs. found is false if the parameter is
// absent.
func Time(query, name string) (micros int64, found, ok bool) {
	return timeBy(isotime.Parse, query, name)
}

// TimeUp is like Time, but rounds up what is finer than microseconds, as an
// exclusive upper bound needs.
func TimeUp(query, name string) (micros int64, found, ok bool) {
	return timeBy(isotime.ParseUp, query, name)
}

func timeBy(parse func(string) (int64, bool), query, name string) (micros int64, found, ok bool) {
	value, found, ok := Value(query, name)
	if !found || !ok {
		return 0, found, ok
	}
	if micros, ok = parse(value); !ok {
		// HTML forms write the space between date and time as "+".
		micros, ok = parse(strings.Replace(value, "+", " ", 1))
	}
	return micros, true, ok
}

// Value returns the decoded value of a parameter. ok is false if the parameter
// is repeated or holds a malformed escape.
func Value(query, name string) (value string, found, ok bool) {
	ok = true
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, valid := percent.Decode(rawKey)
		if !valid || key != name {
			continue
		}
		value, valid = percent.Decode(rawValue)
		ok = valid && !found
		found = true
	}
	return value, found, ok
}
