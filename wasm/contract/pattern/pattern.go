// Package pattern compares the JSON of an answer to what a case wants, in which a
// string may be a pattern.
package pattern

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Matcher compares an answer to what is wanted. Objects must have the same members
// and lists the same length. A wanted string of the form <kind>, <kind:detail> or
// <name=kind…> is a pattern. With a name, the matching text or number is captured under
// it, a number as it is written; nothing else can be captured:
//
//	<any>           anything
//	<string>        a non-empty string
//	<time>          ISO 8601, UTC, with "Z"
//	<at:TIME>       a <time> that is the moment TIME (RFC 3339)
//	<id:PREFIX>     PREFIX, "_" and at least 16 lower-case letters and digits
//	<hex64>         64 lower-case hexadecimal digits
//	<int:LOW..HIGH> a whole number; in a header, its decimal digits
//	<has:TEXT>      a string that contains TEXT
type Matcher struct {
	// Fill replaces variables in a wanted string. Required.
	Fill func(string) string
	// Captured gets what named patterns match. Required.
	Captured map[string]string
}

var (
	form   = regexp.MustCompile(`^<(?:([a-z_0-9]+)=)?([a-z0-9]+)(?::(.*))?>$`)
	hex64  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	idRest = regexp.MustCompile(`^[0-9a-z]{16,}$`)
)

// Value compares JSON values, decoded by Decode, and returns what is wrong. at is the
// path to them.
func (m *Matcher) Value(at string, want, got any) (problems []string) {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, want an object", at, got)}
		}
		for name, w := range want {
			if g, there := object[name]; there {
				problems = append(problems, m.Value(at+"."+name, w, g)...)
			} else {
				problems = append(problems, fmt.Sprintf("%s.%s is not there", at, name))
			}
		}
		for name, g := range object {
			if _, there := want[name]; !there {
				problems = append(problems, fmt.Sprintf("%s.%s is %v, want none", at, name, g))
			}
		}
		slices.Sort(problems)
		return problems
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return []string{fmt.Sprintf("%s is %v, want a list of %d", at, got, len(want))}
		}
		for i := range want {
			problems = append(problems, m.Value(at+"["+strconv.Itoa(i)+"]", want[i], list[i])...)
		}
		return problems
	case string:
		if p := m.Text(at, want, got); p != "" {
			return []string{p}
		}
		return nil
	}
	if want != got { // null, a boolean, or a number as it is written
		return []string{fmt.Sprintf("%s is %v, want %v", at, got, want)}
	}
	return nil
}

// Text compares with a wanted string, which may be a pattern. It returns what is
// wrong, "" if nothing is.
func (m *Matcher) Text(at, want string, got any) string {
	want = m.Fill(want)
	parts := form.FindStringSubmatch(want)
	if parts == nil {
		if want != got {
			return fmt.Sprintf("%s is %#v, want %q", at, got, want)
		}
		return ""
	}
	name, kind, detail := parts[1], parts[2], parts[3]
	s, isText := got.(string)
	number, isNumber := got.(json.Number)
	if !fits(kind, detail, s, isText, got) {
		return fmt.Sprintf("%s is %#v, want %s", at, got, want)
	}
	switch {
	case name == "":
	case isText:
		m.Captured[name] = s
	case isNumber:
		m.Captured[name] = number.String()
	default:
		return fmt.Sprintf("%s is %v: only a text or a number can be captured, as %s wants", at, got, want)
	}
	return ""
}

// fits reports whether a value matches a pattern. s is the value if it is a text.
func fits(kind, detail, s string, isText bool, got any) bool {
	switch kind {
	case "any":
		return true
	case "string":
		return s != ""
	case "time":
		_, ok := moment(s)
		return ok
	case "at":
		want, ok := moment(detail)
		t, also := moment(s)
		return ok && also && t.Equal(want)
	case "id":
		rest, ok := strings.CutPrefix(s, detail+"_")
		return ok && idRest.MatchString(rest)
	case "hex64":
		return hex64.MatchString(s)
	case "int":
		if n, ok := got.(json.Number); ok {
			s, isText = n.String(), true
		}
		low, high, _ := strings.Cut(detail, "..")
		n, err := strconv.ParseInt(s, 10, 64)
		l, err1 := strconv.ParseInt(low, 10, 64)
		h, err2 := strconv.ParseInt(high, 10, 64)
		return isText && err == nil && err1 == nil && err2 == nil && n >= l && n <= h
	case "has":
		return isText && strings.Contains(s, detail)
	}
	return false
}

// moment parses an ISO 8601 time in UTC.
func moment(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil && strings.HasSuffix(s, "Z")
}

// Decode parses one JSON text and refuses anything after it. Numbers stay as they are
// written.
func Decode(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON text")
	}
	return nil
}
