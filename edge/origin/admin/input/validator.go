package admin

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
)

// Longest texts, in characters. What a view shows fits one message between
// origin and node: 100 firings or 50 insights at their longest.
const (
	maxName     = 200
	maxEmail    = 254
	maxLabel    = 200
	maxHeadline = 500
	maxDetail   = 10_000
	maxSentinel = 100
	maxAction   = 500
	maxID       = 128
	maxStage    = 100
)

// Other bounds.
const (
	maxTriggerData = 16 << 10 // bytes, without needless white space
	maxAllowlist   = 100
	maxInRun       = 100 // insights
	maxRate        = 1_000_000
	maxGrace       = 366 * 24 * time.Hour
	defaultGrace   = 7 * 24 * time.Hour
)

// validator holds the fields of a record to their rules and keeps the first that
// is broken, as reason "<field>_<what>".
type validator struct {
	kind  string // such as invalid_account
	first *problem
}

func (v *validator) fail(field, what, detail string) {
	if v.first == nil {
		field = strings.ReplaceAll(field, ".", "_")
		v.first = &problem{Kind: v.kind, Reason: field + "_" + what, Detail: detail}
	}
}

func (v *validator) err() error {
	if v.first == nil {
		return nil
	}
	return v.first
}

// text that must be there, with more in it than white space.
func (v *validator) text(field string, value *string, most int) string {
	if value == nil || strings.TrimSpace(*value) == "" {
		v.fail(field, "required", field+" must not be empty")
		return ""
	}
	return v.optional(field, value, most)
}

// optional text; "" when it is not there.
func (v *validator) optional(field string, value *string, most int) string {
	if value == nil {
		return ""
	}
	switch {
	case utf8.RuneCountInString(*value) > most:
		v.fail(field, "too_long", fmt.Sprintf("%s holds at most %d characters", field, most))
	case strings.ContainsFunc(*value, isControl):
		v.fail(field, "invalid", field+" holds control characters")
	}
	return *value
}

// isControl lets through what belongs to prose.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }

// id that the caller has given.
func (v *validator) id(field string, value *string) string {
	s := v.text(field, value, maxID)
	if strings.ContainsFunc(s, unicode.IsControl) {
		v.fail(field, "invalid", field+" holds control characters")
	}
	if len(s) > 200 { // bytes: what the store takes as an id
		v.fail(field, "too_long", field+" holds at most 200 bytes")
	}
	return s
}

func (v *validator) email(field string, value *string) string {
	s := v.text(field, value, maxEmail)
	if s == "" {
		return s
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || parsed.Name != "" || strings.ContainsAny(s, "\"\r\n\t ") {
		v.fail(field, "invalid", field+" is not an e-mail address")
	}
	return s
}

func (v *validator) oneOf(field string, value *string, known ...string) string {
	if value == nil || *value == "" {
		v.fail(field, "required", field+" must be one of "+strings.Join(known, ", "))
		return ""
	}
	if !slices.Contains(known, *value) {
		v.fail(field, "invalid", field+" must be one of "+strings.Join(known, ", "))
	}
	return *value
}

// time in RFC 3339; zero when it is not there.
func (v *validator) time(field string, value *string) time.Time {
	if value == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, *value)
	if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 || t.UnixMicro() <= 0 {
		v.fail(field, "invalid", field+" must be an RFC 3339 time from 1970 on, such as 2026-01-31T12:00:00Z")
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// between holds a number to its bounds; missing gives fallback.
func (v *validator) between(field string, value *int64, least, most, fallback int64) int64 {
	if value == nil {
		return fallback
	}
	if *value < least || *value > most {
		v.fail(field, "invalid", fmt.Sprintf("%s must be from %d to %d", field, least, most))
	}
	return *value
}

// each checks a list of known words, and leaves out what is there twice.
func (v *validator) each(field string, value []string, known ...string) []string {
	if len(value) == 0 {
		v.fail(field, "required", field+" must name at least one of "+strings.Join(known, ", "))
	}
	var out []string
	for _, s := range value {
		if !slices.Contains(known, s) {
			v.fail(field, "invalid", field+" can hold "+strings.Join(known, ", "))
			return nil
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// scopes reads the scopes of a key.
func (v *validator) scopes(field string, value []string) []string {
	const which = "the contract's (read:agent, read:coaching, read:sentinels, write:webhooks, write:leads) or own ones (x: and 1 to 40 of a to z, 0 to 9 and hyphens)"
	if len(value) == 0 {
		v.fail(field, "required", field+" must name at least one of "+which)
	}
	out, err := valid.Scopes(value)
	if err != nil {
		v.fail(field, "invalid", fmt.Sprintf("%s can hold %s, of the latter at most %d", field, which, abi.MaxOwnScopes))
	}
	return out
}

// prefixes reads networks, each CIDR or one address.
func (v *validator) prefixes(field string, value []string) []netip.Prefix {
	if len(value) > maxAllowlist {
		v.fail(field, "too_long", fmt.Sprintf("%s holds at most %d networks", field, maxAllowlist))
		return nil
	}
	out := make([]netip.Prefix, 0, len(value))
	for _, s := range value {
		p, ok := parsePrefix(s)
		if !ok {
			v.fail(field, "invalid", field+" holds addresses and networks such as 192.0.2.7 and 2001:db8::/32")
			return nil
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// parsePrefix reads a network or an address. Bits of the host are cleared; an
// IPv4 address that is written as IPv6 counts as the IPv4 that it is.
func parsePrefix(s string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), a.Zone() == ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, false
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), true
}

// object that the caller fills as he likes, without needless white space.
func (v *validator) object(field string, value json.RawMessage) json.RawMessage {
	if len(value) == 0 || string(value) == "null" {
		v.fail(field, "required", field+" must be an object")
		return nil
	}
	if value[0] != '{' {
		v.fail(field, "invalid", field+" must be an object")
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		v.fail(field, "invalid", field+" must be an object")
	}
	if b.Len() > maxTriggerData {
		v.fail(field, "too_long", fmt.Sprintf("%s holds at most %d bytes", field, maxTriggerData))
	}
	return b.Bytes()
}

// region is the name of a region that a node takes.
func (v *validator) region(field string, value *string) string {
	s := v.text(field, value, 40)
	if s != "" && !wire.IsRegion(s) {
		v.fail(field, "invalid", field+" holds at most 40 lower-case letters, digits and dashes, and begins with no dash")
	}
	return s
}
