package central

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"partneredge/store"
)

// Both databases refuse the same values, so what one cannot hold is refused
// before either is asked.

const (
	maxID   = 200     // bytes of an identifier
	maxText = 1 << 20 // bytes of any other text
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
}

// validText tells whether both databases can hold s: UTF-8 without NUL.
func validText(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// field is a value with the name that errors call it by. Errors never hold the
// value.
type field struct{ name, value string }

// checkTexts refuses text that cannot be held.
func checkTexts(fields ...field) error {
	for _, f := range fields {
		switch {
		case !validText(f.value):
			return invalid("%s is not UTF-8 without NUL", f.name)
		case len(f.value) > maxText:
			return invalid("%s is longer than %d bytes", f.name, maxText)
		}
	}
	return nil
}

// checkIDs refuses identifiers that are empty, too long or not text.
func checkIDs(fields ...field) error {
	for _, f := range fields {
		switch {
		case f.value == "":
			return invalid("%s is empty", f.name)
		case !validText(f.value):
			return invalid("%s is not UTF-8 without NUL", f.name)
		case len(f.value) > maxID:
			return invalid("%s is longer than %d bytes", f.name, maxID)
		}
	}
	return nil
}

// checkTimes refuses times that an envelope could not write, and those before
// 1970, of which one would read as "not set". The zero time passes.
func checkTimes(times ...time.Time) error {
	for _, t := range times {
		if !t.IsZero() && (t.UnixMicro() <= 0 || t.UTC().Year() > 9999) {
			return invalid("time outside the years 1970 to 9999")
		}
	}
	return nil
}

// timeOr is t in UTC microseconds, or fallback when t is zero.
func timeOr(t, fallback time.Time) time.Time {
	if t.IsZero() {
		return fallback
	}
	return t.UTC().Truncate(time.Microsecond)
}

func checkOneOf[T ~string](name string, value T, known ...T) error {
	if !slices.Contains(known, value) {
		return invalid("%s is none of %q", name, known)
	}
	return nil
}

func checkMode(m store.Mode) error {
	return checkOneOf("activation mode", m, store.ModeSetup, store.ModeLive)
}

func checkEnvironment(e store.Environment) error {
	return checkOneOf("environment", e, store.Live, store.Test)
}

// distinct checks that every value is known, and drops repetitions.
func distinct(name string, values []string, known ...string) ([]string, error) {
	out := make([]string, 0, len(values))
	for _, v := range values {
		if err := checkOneOf(name, v, known...); err != nil {
			return nil, err
		}
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out, nil
}

// checkObject refuses what is not a JSON object; nothing at all is {}.
func checkObject(name string, data json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 {
		return json.RawMessage("{}"), nil
	}
	if len(data) > maxText || !validText(string(data)) || !json.Valid(data) ||
		!strings.HasPrefix(strings.TrimLeft(string(data), " \t\r\n"), "{") {
		return nil, invalid("%s is not a JSON object of at most %d bytes", name, maxText)
	}
	return data, nil
}

// mustBeText is ErrNotFound for an id that no row can have.
func mustBeText(name, id string) error {
	if id == "" || len(id) > maxID || !validText(id) {
		return fmt.Errorf("%w: %s", store.ErrNotFound, name)
	}
	return nil
}
