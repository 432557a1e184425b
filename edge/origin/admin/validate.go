package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/mail"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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

// checks holds the fields of a record to their rules and keeps the first that
// is broken, as reason "<field>_<what>".
type checks struct {
	kind  string // such as invalid_account
	first *problem
}

func (c *checks) fail(field, what, detail string) {
	if c.first == nil {
		field = strings.ReplaceAll(field, ".", "_")
		c.first = &problem{Kind: c.kind, Reason: field + "_" + what, Detail: detail}
	}
}

func (c *checks) err() error {
	if c.first == nil {
		return nil
	}
	return c.first
}

// text that must be there, with more in it than white space.
func (c *checks) text(field string, v *string, most int) string {
	if v == nil || strings.TrimSpace(*v) == "" {
		c.fail(field, "required", field+" must not be empty")
		return ""
	}
	return c.optional(field, v, most)
}

// optional text; "" when it is not there.
func (c *checks) optional(field string, v *string, most int) string {
	if v == nil {
		return ""
	}
	switch {
	case utf8.RuneCountInString(*v) > most:
		c.fail(field, "too_long", fmt.Sprintf("%s holds at most %d characters", field, most))
	case strings.ContainsFunc(*v, isControl):
		c.fail(field, "invalid", field+" holds control characters")
	}
	return *v
}

// isControl lets through what belongs to prose.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }

// id that the caller has given.
func (c *checks) id(field string, v *string) string {
	s := c.text(field, v, maxID)
	if strings.ContainsFunc(s, unicode.IsControl) {
		c.fail(field, "invalid", field+" holds control characters")
	}
	if len(s) > 200 { // bytes: what the store takes as an id
		c.fail(field, "too_long", field+" holds at most 200 bytes")
	}
	return s
}

func (c *checks) email(field string, v *string) string {
	s := c.text(field, v, maxEmail)
	if s == "" {
		return s
	}
	parsed, err := mail.ParseAddress(s)
	if err != nil || parsed.Address != s || parsed.Name != "" || strings.ContainsAny(s, "\"\r\n\t ") {
		c.fail(field, "invalid", field+" is not an e-mail address")
	}
	return s
}

func (c *checks) oneOf(field string, v *string, known ...string) string {
	if v == nil || *v == "" {
		c.fail(field, "required", field+" must be one of "+strings.Join(known, ", "))
		return ""
	}
	if !slices.Contains(known, *v) {
		c.fail(field, "invalid", field+" must be one of "+strings.Join(known, ", "))
	}
	return *v
}

// time in RFC 3339; zero when it is not there.
func (c *checks) time(field string, v *string) time.Time {
	if v == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, *v)
	if err != nil || t.UTC().Year() < 1970 || t.UTC().Year() > 9999 || t.UnixMicro() <= 0 {
		c.fail(field, "invalid", field+" must be an RFC 3339 time from 1970 on, such as 2026-01-31T12:00:00Z")
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// between holds a number to its bounds; missing gives fallback.
func (c *checks) between(field string, v *int64, least, most, fallback int64) int64 {
	if v == nil {
		return fallback
	}
	if *v < least || *v > most {
		c.fail(field, "invalid", fmt.Sprintf("%s must be from %d to %d", field, least, most))
	}
	return *v
}

// each checks a list of known words, and leaves out what is there twice.
func (c *checks) each(field string, v []string, known ...string) []string {
	if len(v) == 0 {
		c.fail(field, "required", field+" must name at least one of "+strings.Join(known, ", "))
	}
	var out []string
	for _, s := range v {
		if !slices.Contains(known, s) {
			c.fail(field, "invalid", field+" can hold "+strings.Join(known, ", "))
			return nil
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// prefixes reads networks, each CIDR or one address.
func (c *checks) prefixes(field string, v []string) []netip.Prefix {
	if len(v) > maxAllowlist {
		c.fail(field, "too_long", fmt.Sprintf("%s holds at most %d networks", field, maxAllowlist))
		return nil
	}
	out := make([]netip.Prefix, 0, len(v))
	for _, s := range v {
		p, ok := parsePrefix(s)
		if !ok {
			c.fail(field, "invalid", field+" holds addresses and networks such as 192.0.2.7 and 2001:db8::/32")
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
func (c *checks) object(field string, v json.RawMessage) json.RawMessage {
	if len(v) == 0 || string(v) == "null" {
		c.fail(field, "required", field+" must be an object")
		return nil
	}
	if v[0] != '{' {
		c.fail(field, "invalid", field+" must be an object")
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, v); err != nil {
		c.fail(field, "invalid", field+" must be an object")
	}
	if b.Len() > maxTriggerData {
		c.fail(field, "too_long", fmt.Sprintf("%s holds at most %d bytes", field, maxTriggerData))
	}
	return b.Bytes()
}

var wordForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// word is a short name that can stand in a path or a label.
func (c *checks) word(field string, v *string) string {
	s := c.text(field, v, 64)
	if s != "" && !wordForm.MatchString(s) {
		c.fail(field, "invalid", field+" holds letters, digits, '.', '_' and '-', and begins with a letter or digit")
	}
	return s
}
