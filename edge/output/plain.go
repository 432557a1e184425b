package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// What comes from elsewhere, such as names in an endpoint's certificate, may hold
// characters that steer a terminal. All that a command prints of it goes through
// Plain, Lines or WriteJSON.

// steers reports whether a terminal may do something else with r than show it: the
// control characters C0 and C1, and those that turn the direction of writing.
func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Plain returns text for one line or cell: quoted if it has characters that steer a
// terminal, or bytes that are no UTF-8, some of which old terminals take for C1.
func Plain(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return steers(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(text)
	}
	return text
}

// Lines returns text of several lines with the characters that steer a terminal
// escaped, but for the ends of its lines. A tab becomes four spaces.
func Lines(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\t", "    "), "\n")
	for i, line := range lines {
		if quoted := Plain(line); quoted != line {
			lines[i] = quoted[1 : len(quoted)-1]
		}
	}
	return strings.Join(lines, "\n")
}

// WriteJSON writes JSON and a line end. It escapes in the strings what steers a
// terminal and JSON lets stand, which leaves their values as they are.
func WriteJSON(out io.Writer, v json.RawMessage) error {
	_, err := fmt.Fprintf(out, "%s\n", escapeJSON(v))
	return err
}

func escapeJSON(v json.RawMessage) []byte {
	v = bytes.TrimSpace(v)
	if !bytes.ContainsFunc(v, func(r rune) bool { return steers(r) || r == unicode.ReplacementChar }) {
		return v
	}
	var b bytes.Buffer
	for _, r := range string(v) { // bytes that are no UTF-8 become U+FFFD
		if steers(r) && r != '\n' && r != '\r' && r != '\t' {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}
