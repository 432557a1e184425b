package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unsafe"
)

// Encode returns the JSON text of m after setting the version in its header.
// The other fields of the header are left as the caller set them. The
// characters <, > and & stay as they are: escaped, each takes six bytes.
func Encode(m Message) ([]byte, error) {
	m.Header().V = Version
	if f, ok := m.(fast); ok {
		if text, ok := f.appendFast(nil); ok {
			return text, nil
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("encode %T: %w", m, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Decode parses data into m. The error is a VersionError if the sender's
// version is too far from this one, whatever else is wrong with the message:
// another version may have given a field another type. Every other error wraps
// ErrMalformed and holds none of the message's content. data must stay as it is for as
// long as m is used: the texts of changes lie in it.
func Decode(data []byte, m Message) error {
	var err error
	if f, ok := m.(fast); !ok || !f.parseFast(unsafe.String(unsafe.SliceData(data), len(data))) {
		if ok {
			reflect.ValueOf(m).Elem().SetZero() // the message may be half read
		}
		err = json.Unmarshal(data, m)
		if c, ok := m.(*Changed); ok && err == nil && !c.expand() {
			err = errShort
		}
	}
	var wrong *json.UnmarshalTypeError
	switch v := m.Header().V; {
	case v != 0 && !understood(v):
		return VersionError(v)
	case errors.As(err, &wrong):
		return fmt.Errorf("%w: wrong type of %s", ErrMalformed, wrong.Field)
	case err != nil:
		return fmt.Errorf("%w: no valid JSON", ErrMalformed)
	case v == 0:
		return fmt.Errorf("%w: it says no version", ErrMalformed)
	}
	return nil
}

var errShort = errors.New("no short form of changes")

// ErrMalformed is the error of a message that cannot be parsed or that carries
// no version.
var ErrMalformed = errors.New("malformed message")

// VersionError is the error of a message whose sender speaks this version,
// which is more than one away from Version.
type VersionError int

// Error names both versions.
func (e VersionError) Error() string {
	return fmt.Sprintf("the sender speaks version %d, too far from this program's %d", int(e), Version)
}
