// Package valid refuses values that one of the two databases cannot hold before
// either is asked, so that both refuse the same.
//
// Its errors wrap store.ErrInvalid, and store.ErrNotFound where an identifier
// asks for a record that cannot be. They name the field and never its value.
package valid

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"partneredge/store"
	"partneredge/wasm/handlers/jsonbody"
)

const (
	maxID   = 200     // bytes of an identifier
	maxText = 1 << 20 // bytes of any other text
)

// Errorf formats an error of the kind ErrInvalid.
func Errorf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
}

// Text reports whether both databases can hold s: UTF-8 without NUL.
func Text(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

// Texts refuses text that cannot be held or is longer than 1 MiB. It is given
// each text after the name of its field.
func Texts(namesAndTexts ...string) error {
	for pair := range slices.Chunk(namesAndTexts, 2) {
		if err := text(pair[0], pair[1], maxText); err != nil {
			return err
		}
	}
	return nil
}

// IDs refuses identifiers that are empty, longer than 200 bytes or not text. It
// is given each identifier after the name of its field.
func IDs(namesAndIDs ...string) error {
	for pair := range slices.Chunk(namesAndIDs, 2) {
		if pair[1] == "" {
			return Errorf("%s is empty", pair[0])
		}
		if err := text(pair[0], pair[1], maxID); err != nil {
			return err
		}
	}
	return nil
}

func text(name, value string, most int) error {
	switch {
	case !Text(value):
		return Errorf("%s is not UTF-8 without NUL", name)
	case len(value) > most:
		return Errorf("%s is longer than %d bytes", name, most)
	}
	return nil
}

// Times refuses times that an envelope could not write, and those before 1970,
// of which one would read as "not set". The zero time passes.
func Times(times ...time.Time) error {
	for _, t := range times {
		if !t.IsZero() && (t.UnixMicro() <= 0 || t.UTC().Year() > 9999) {
			return Errorf("time outside the years 1970 to 9999")
		}
	}
	return nil
}

// OneOf refuses a value that is not among the known ones.
func OneOf[T ~string](name string, value T, known ...T) error {
	if !slices.Contains(known, value) {
		return Errorf("%s is none of %q", name, known)
	}
	return nil
}

// Environment refuses all but live and test.
func Environment(e store.Environment) error {
	return OneOf("environment", e, store.Live, store.Test)
}

// Distinct returns values without repetitions, and refuses them when one is not
// among the known ones.
func Distinct(name string, values []string, known ...string) ([]string, error) {
	out := make([]string, 0, len(values))
	for _, v := range values {
		if err := OneOf(name, v, known...); err != nil {
			return nil, err
		}
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out, nil
}

// Object refuses what is not a JSON object of at most 1 MiB, and one that not every
// reader of JSON can read, since it is handed to partners as it is. Nothing at all is
// the empty object. What was taken before is read and restored without this.
func Object(name string, data json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 {
		return json.RawMessage("{}"), nil
	}
	if len(data) > maxText || !jsonbody.IsFreeForm(data) {
		return nil, Errorf("%s is not a JSON object of at most %d bytes that every reader can read", name, maxText)
	}
	return data, nil
}

// References returns those of some ids that a record can have.
func References(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return Reference("", id) != nil })
}

// Reference returns ErrNotFound for an identifier that no record can have.
func Reference(noun, id string) error {
	if id == "" || len(id) > maxID || !Text(id) {
		return fmt.Errorf("%w: %s", store.ErrNotFound, noun)
	}
	return nil
}
