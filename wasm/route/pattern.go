package route

import (
	"errors"
	"fmt"
	"strings"
)

// Bounds of a release's routes.
const (
	MaxRoutes   = 1000 // in one release
	MaxPath     = 256  // bytes of a pattern
	MaxSegments = 12   // of a pattern, below Prefix
	MaxParams   = 8    // of a pattern
	maxParam    = 40   // bytes of a parameter's name
)

// pattern is a parsed path below Prefix. A segment is a literal, or "" for a
// parameter. A trailing slash is kept in slash and is no segment.
type pattern struct {
	segments []string
	params   []string // names, in order
	slash    bool
}

// parse parses the path of a route.
func parse(path string) (p pattern, err error) {
	rest, ok := strings.CutPrefix(path, Prefix)
	switch {
	case len(path) > MaxPath:
		return p, fmt.Errorf("the path has %d bytes, more than %d", len(path), MaxPath)
	case !ok:
		return p, fmt.Errorf("the path does not begin with %s", Prefix)
	case rest == "":
		return p, fmt.Errorf("the path is %s itself", Prefix)
	}
	rest, p.slash = strings.CutSuffix(rest, "/")
	for segment := range strings.SplitSeq(rest, "/") {
		if len(p.segments) == MaxSegments {
			return p, fmt.Errorf("the path has more than %d segments", MaxSegments)
		}
		literal, err := p.segment(segment)
		if err != nil {
			return p, err
		}
		p.segments = append(p.segments, literal)
	}
	return p, nil
}

// segment parses one segment and returns its literal, "" for a parameter.
func (p *pattern) segment(text string) (literal string, err error) {
	if text == "" {
		return "", errors.New("the path has an empty segment")
	}
	if text == "." || text == ".." {
		return "", fmt.Errorf("the path has the segment %s", text)
	}
	if text[0] == '{' && text[len(text)-1] == '}' {
		return "", p.param(text[1 : len(text)-1])
	}
	for i := range len(text) {
		if !unreserved(text[i]) {
			return "", fmt.Errorf("segment %q has a byte other than a letter, a digit and -._~", text)
		}
	}
	return text, nil
}

func (p *pattern) param(name string) error {
	if name == "" || len(name) > maxParam || name[0] < 'a' || name[0] > 'z' {
		return fmt.Errorf("{%s} is no parameter: a name is a letter, then at most %d of a to z, 0 to 9 and _", name, maxParam-1)
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return fmt.Errorf("{%s} is no parameter: a name is a letter, then at most %d of a to z, 0 to 9 and _", name, maxParam-1)
		}
	}
	if len(p.params) == MaxParams {
		return fmt.Errorf("the path has more than %d parameters", MaxParams)
	}
	for _, earlier := range p.params {
		if earlier == name {
			return fmt.Errorf("the path has the parameter {%s} twice", name)
		}
	}
	p.params = append(p.params, name)
	return nil
}

// unreserved reports whether c is never percent-encoded in a path (RFC 3986, section
// 2.3), so that a literal is sent in one way only.
func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// relation says which paths two patterns match.
type relation int

const (
	disjoint  relation = iota // no path in common
	equal                     // the same paths
	narrower                  // the first matches some of the second's paths, and no others
	wider                     // the other way round
	ambiguous                 // some in common, and each has some of its own
)

// compare relates two patterns.
func compare(a, b pattern) relation {
	if len(a.segments) != len(b.segments) || a.slash != b.slash {
		return disjoint
	}
	r := equal
	for i, x := range a.segments {
		y := b.segments[i]
		step := equal
		switch {
		case x == y:
			continue
		case x != "" && y != "":
			return disjoint
		case y == "":
			step = narrower
		default:
			step = wider
		}
		if r != equal && r != step {
			r = ambiguous
		} else if r == equal {
			r = step
		}
	}
	return r
}
