package input

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/mail"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"partneredge/edge/wire"
	"partneredge/store/valid"
	"partneredge/wasm/abi"
	"partneredge/wasm/network"
)

// Longest texts, in characters. What a view shows fits one message between
// origin and node: 100 firings or 50 insights at their longest.
const (
	MaxName     = 200
	maxEmail    = 254
	MaxLabel    = 200
	MaxHeadline = 500
	MaxDetail   = 10_000
	MaxSentinel = 100
	MaxAction   = 500
	maxID       = 128
	MaxStage    = 100
)

// Other bounds.
const (
	maxTriggerData = 16 << 10 // bytes, without needless white space
	maxAllowlist   = 100
	MaxInRun       = 100 // insights
	MaxRate        = 1_000_000
	MaxGrace       = 366 * 24 * time.Hour
)

// Validator holds the fields of a record to their rules and keeps the first that
// is broken, as reason "<field>_<what>".
type Validator struct {
	Kind  string // such as invalid_account
	first *Problem
}

// Fail notes that the field breaks a rule: the reason is "<field>_<what>".
func (v *Validator) Fail(field, what, detail string) {
	if v.first == nil {
		field = strings.ReplaceAll(field, ".", "_")
		v.first = &Problem{Kind: v.Kind, Reason: field + "_" + what, Detail: detail}
	}
}

// Err returns the first problem, nil if there is none.
func (v *Validator) Err() error {
	if v.first == nil {
		return nil
	}
	return v.first
}

// Text returns a text that must be there, with more in it than white space, and at
// most so many characters.
func (v *Validator) Text(field string, value *string, most int) string {
	if value == nil || strings.TrimSpace(*value) == "" {
		v.Fail(field, "required", field+" must not be empty")
		return ""
	}
	return v.Optional(field, value, most)
}

// Optional returns a text of at most so many characters, "" when it is not there.
func (v *Validator) Optional(field string, value *string, most int) string {
	if value == nil {
		return ""
	}
	switch {
	case utf8.RuneCountInString(*value) > most:
		v.Fail(field, "too_long", fmt.Sprintf("%s holds at most %d characters", field, most))
	case strings.ContainsFunc(*value, isControl):
		v.Fail(field, "invalid", field+" holds control characters")
	}
	return *value
}

// isControl lets through what belongs to prose.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }

// ID returns an id that the caller has given.
func (v *Validator) ID(field string, value *string) string {
	s := v.Text(field, value, maxID)
	if strings.ContainsFunc(s, unicode.IsControl) {
		v.Fail(field, "invalid", field+" holds control characters")
	}
	if len(s) > 200 { // bytes: what the store takes as an id
		v.Fail(field, "too_long", field+" holds at most 200 bytes")
	}
	return s
}

// Email returns an address that must be there, without a name.
func (v *Validator) Email(field string, value *string) string {
	s := v.Text(field, value, maxEmail)
	if s == "" {
		return s
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || parsed.Name != "" || strings.ContainsAny(s, "\"\r\n\t ") {
		v.Fail(field, "invalid", field+" is not an e-mail address")
	}
	return s
}

// OneOf returns a word that must be there and be known.
func (v *Validator) OneOf(field string, value *string, known ...string) string {
	if value == nil || *value == "" {
		v.Fail(field, "required", field+" must be one of "+strings.Join(known, ", "))
		return ""
	}
	if !slices.Contains(known, *value) {
		v.Fail(field, "invalid", field+" must be one of "+strings.Join(known, ", "))
	}
	return *value
}

// Time reads a time in RFC 3339, and returns the zero time when it is not there.
func (v *Validator) Time(field string, value *string) time.Time {
	if value == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, *value)
	if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 || t.UnixMicro() <= 0 {
		v.Fail(field, "invalid", field+" must be an RFC 3339 time from 1970 on, such as 2026-01-31T12:00:00Z")
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// Between holds a number to its bounds; missing gives fallback.
func (v *Validator) Between(field string, value *int64, least, most, fallback int64) int64 {
	if value == nil {
		return fallback
	}
	if *value < least || *value > most {
		v.Fail(field, "invalid", fmt.Sprintf("%s must be from %d to %d", field, least, most))
	}
	return *value
}

// Each checks a list of known words, and leaves out what is there twice.
func (v *Validator) Each(field string, value []string, known ...string) []string {
	if len(value) == 0 {
		v.Fail(field, "required", field+" must name at least one of "+strings.Join(known, ", "))
	}
	var out []string
	for _, s := range value {
		if !slices.Contains(known, s) {
			v.Fail(field, "invalid", field+" can hold "+strings.Join(known, ", "))
			return nil
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Scopes reads the scopes of a key, of which there must be one.
func (v *Validator) Scopes(field string, value []string) []string {
	const which = "the contract's (read:agent, read:coaching, read:sentinels, write:webhooks, write:leads) or own ones (x: and 1 to 40 of a to z, 0 to 9 and hyphens)"
	if len(value) == 0 {
		v.Fail(field, "required", field+" must name at least one of "+which)
	}
	out, err := valid.Scopes(value)
	if err != nil {
		v.Fail(field, "invalid", fmt.Sprintf("%s can hold %s, of the latter at most %d", field, which, abi.MaxOwnScopes))
	}
	return out
}

// Prefixes reads networks, each CIDR or one address.
func (v *Validator) Prefixes(field string, value []string) []netip.Prefix {
	if len(value) > maxAllowlist {
		v.Fail(field, "too_long", fmt.Sprintf("%s holds at most %d networks", field, maxAllowlist))
		return nil
	}
	out := make([]netip.Prefix, 0, len(value))
	for _, s := range value {
		p, ok := network.Parse(s)
		if !ok {
			v.Fail(field, "invalid", field+" holds addresses and networks such as 192.0.2.7 and 2001:db8::/32")
			return nil
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// Object returns an object that the caller fills as he likes, without needless white
// space.
func (v *Validator) Object(field string, value json.RawMessage) json.RawMessage {
	if len(value) == 0 || string(value) == "null" {
		v.Fail(field, "required", field+" must be an object")
		return nil
	}
	if _, err := valid.Object(field, value); err != nil {
		v.Fail(field, "invalid", field+" must be an object without NUL characters, halves of surrogate pairs and numbers that no float64 holds")
		return nil
	}
	var b bytes.Buffer
	_ = json.Compact(&b, value) // is JSON
	if b.Len() > maxTriggerData {
		v.Fail(field, "too_long", fmt.Sprintf("%s holds at most %d bytes", field, maxTriggerData))
	}
	return b.Bytes()
}

// Region returns the name of a region that a node takes.
func (v *Validator) Region(field string, value *string) string {
	s := v.Text(field, value, 40)
	if s != "" && !wire.IsRegion(s) {
		v.Fail(field, "invalid", field+" holds at most 40 lower-case letters, digits and dashes, and begins with no dash")
	}
	return s
}
