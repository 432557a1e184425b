package openapi

import (
	"fmt"

	"partneredge/edge/release"
)

// Bounds of what modules describe. A fragment that takes more is refused, since a few
// kilobytes that nest deeply, or that many places refer to, can stand for gigabytes.
const (
	// MaxDocument is the most bytes that a joined document may have.
	MaxDocument = 4 << 20
	// MaxDepth is how deep objects and lists of a fragment may lie in each other.
	MaxDepth = 64
	// MaxReference is the most bytes of text that the reference page may have.
	MaxReference = 8 << 20
)

// fragmentMargin is the most spaces by which a fragment is indented in the document.
const fragmentMargin = 8

// checkBounds returns an error unless fragments, which are JSON, keep to MaxDepth and to
// what MaxDocument leaves them.
func checkBounds(fragments []release.Fragment) error {
	size := len(document)
	for _, f := range fragments {
		depth, indented := measure(f.JSON)
		if depth > MaxDepth {
			return fmt.Errorf("openapi of module %s: objects and lists lie %d deep in each other, and %d is the most", f.Module, depth, MaxDepth)
		}
		if size += indented; size > MaxDocument {
			return fmt.Errorf("openapi of module %s: with it the API document has %d bytes, and %d is the most", f.Module, size, MaxDocument)
		}
	}
	return nil
}

// measure returns how deep objects and lists of a JSON text lie in each other, and at
// most how many bytes the text has once it is indented.
func measure(text []byte) (depth, size int) {
	at, inString := 0, false
	line := func() { size += 1 + fragmentMargin + 2*at }
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case inString:
			size++
			if c == '\\' {
				i++
				size++
			}
			inString = c != '"'
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		case c == '{' || c == '[':
			at++
			depth = max(depth, at)
			size++
			line()
		case c == '}' || c == ']':
			at--
			line()
			size++
		case c == ',':
			size++
			line()
		default:
			inString = c == '"'
			size += 2 // a colon gets a space
		}
	}
	return depth, size
}
