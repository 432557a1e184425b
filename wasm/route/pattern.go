package route

import (
	"errors"
	"slices"
	"strconv"
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
		return p, errors.New("the path has " + strconv.Itoa(len(path)) + " bytes, more than " + strconv.Itoa(MaxPath))
	case !ok:
		return p, errors.New("the path does not begin with " + Prefix)
	case rest == "":
		return p, errors.New("the path is " + Prefix + " itself")
	}
	rest, p.slash = strings.CutSuffix(rest, "/")
	for segment := range strings.SplitSeq(rest, "/") {
		if len(p.segments) == MaxSegments {
			return p, errors.New("the path has more than " + strconv.Itoa(MaxSegments) + " segments")
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
		return "", errors.New("the path has the segment " + text)
	}
	if text[0] == '{' && text[len(text)-1] == '}' {
		return "", p.param(text[1 : len(text)-1])
	}
	if strings.Trim(text, unreserved) != "" {
		return "", errors.New("segment " + strconv.Quote(text) + " has a byte other than a letter, a digit and -._~")
	}
	return text, nil
}

func (p *pattern) param(name string) error {
	if !isParam(name) {
		return errors.New("{" + name + "} is no parameter: a name is a letter, then at most " +
			strconv.Itoa(maxParam-1) + " of a to z, 0 to 9 and _")
	}
	if len(p.params) == MaxParams {
		return errors.New("the path has more than " + strconv.Itoa(MaxParams) + " parameters")
	}
	if slices.Contains(p.params, name) {
		return errors.New("the path has the parameter {" + name + "} twice")
	}
	p.params = append(p.params, name)
	return nil
}

func isParam(name string) bool {
	if name == "" || len(name) > maxParam || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// unreserved are the bytes that are never percent-encoded in a path (RFC 3986, section
// 2.3), so that a literal is sent in one way only.
const unreserved = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

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
