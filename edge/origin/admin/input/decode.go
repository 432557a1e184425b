package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Bounds of a request body.
const (
	maxBody  = 1 << 20 // bytes
	maxDepth = 64      // arrays and objects within each other
)

// FreeForm is the one field whose content is the caller's own.
const FreeForm = "trigger_data"

// Decode reads the body, one JSON object, into v. One that is optional may be left out. It
// is strict: a field that v does not have, a field named twice, a wrong type, anything
// after the object, and bytes that are not UTF-8 are problems.
func Decode(r *http.Request, v any, optional bool) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	if optional && len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	return decodeBody(body, v)
}

func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, &Problem{Kind: KindTooLarge, Detail: fmt.Sprintf("a body holds at most %d bytes", maxBody)}
	}
	if err != nil {
		return nil, &Problem{Kind: KindBody, Reason: "unreadable"}
	}
	return body, nil
}

func decodeBody(body []byte, v any) error {
	if !utf8.Valid(body) {
		return &Problem{Kind: KindBody, Reason: "not_utf8"}
	}
	if err := inspect(body); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	switch wrongType, ok := errors.AsType[*json.UnmarshalTypeError](err); {
	case err == nil:
		return nil
	case ok:
		return &Problem{Kind: KindBody, Reason: "invalid_field_type", Detail: wrongTypeDetail(wrongType)}
	default:
		if _, field, found := strings.Cut(err.Error(), "unknown field "); found {
			return unknownField(strings.Trim(field, `"`))
		}
		return &Problem{Kind: KindBody, Reason: "json_parse_failed"}
	}
}

func wrongTypeDetail(err *json.UnmarshalTypeError) string {
	field := err.Field
	if field == "" {
		return "the body must be an object"
	}
	return "wrong type of " + field
}

func unknownField(name string) error {
	return &Problem{Kind: KindBody, Reason: "unknown_field", Detail: "unknown field " + name}
}

// inspect walks the tokens of body for what encoding/json lets pass: it takes
// the last of two fields of one name, and Name for name.
func inspect(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := inspectValue(d, 0, false); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &Problem{Kind: KindBody, Reason: "json_parse_failed", Detail: "something follows the object"}
	}
	if first := bytes.TrimLeft(body, " \t\r\n"); first[0] != '{' {
		return &Problem{Kind: KindBody, Reason: "invalid_field_type", Detail: "the body must be an object"}
	}
	return nil
}

// isFieldName reports whether name may be a field's: names of fields are ASCII without
// capitals. encoding/json takes others for them, not only Name for name, but also those with
// U+017F (long s) for s or U+212A (Kelvin sign) for k.
func isFieldName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' })
}

func inspectValue(d *json.Decoder, depth int, free bool) error {
	token, err := d.Token()
	if err != nil {
		return &Problem{Kind: KindBody, Reason: "json_parse_failed"}
	}
	open, isDelim := token.(json.Delim)
	if !isDelim {
		return nil
	}
	if depth == maxDepth {
		return &Problem{Kind: KindBody, Reason: "too_deep"}
	}
	names := make(map[string]bool)
	for d.More() {
		inner := free
		if open == '{' {
			key, err := d.Token()
			if err != nil {
				return &Problem{Kind: KindBody, Reason: "json_parse_failed"}
			}
			name := key.(string) // the decoder takes nothing else here
			if names[name] {
				return &Problem{Kind: KindBody, Reason: "duplicate_field", Detail: "field " + name + " is there twice"}
			}
			names[name] = true
			if !free && !isFieldName(name) {
				return unknownField(name)
			}
			inner = free || name == FreeForm
		}
		if err := inspectValue(d, depth+1, inner); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return &Problem{Kind: KindBody, Reason: "json_parse_failed"}
	}
	return nil
}
