package wire

import "regexp"

var regionName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)

// IsRegion reports whether s may name a region: at most 40 lower-case letters, digits
// and dashes, no dash first, which are safe in a path and a label. Nodes and the origin
// keep to the same rule.
func IsRegion(s string) bool { return regionName.MatchString(s) }

// RegionTag begins the tag of a node's credentials that names the region which the
// node was enrolled for.
const RegionTag = "region:"
