package wire

// IsRegion reports whether s may name a region: at most 40 lower-case letters, digits
// and dashes, no dash first, which are safe in a path and a label. Nodes and the origin
// keep to the same rule.
func IsRegion(s string) bool {
	if s == "" || len(s) > 40 || s[0] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// RegionTag begins the tag of a node's credentials that names the region which the
// node was enrolled for.
const RegionTag = "region:"
