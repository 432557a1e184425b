package wire

import "strings"

// An address names a node in subjects, in the place of <node>. It is the node's id, or
// the region's token and the id, such as region-eu.node_01…: subjects of a region's nodes
// then share a token, by which the NATS server of the region is allowed those of its own
// nodes and no others. A node has the address that its credentials allow; those of
// before regional addresses allow the id alone.

const regionToken = "region-" // no id begins so

// RegionToken returns the token that regional addresses of a region begin with.
func RegionToken(region string) string { return regionToken + region }

// RegionalAddress returns the address of a node that names its region.
func RegionalAddress(region, node string) string { return RegionToken(region) + "." + node }

// Sender returns the address that a subject of a node names, the node, and the region of
// a regional address, "" of another.
func Sender(subject string) (address, node, region string) {
	rest := strings.TrimPrefix(subject, Prefix)
	node, after, _ := strings.Cut(rest, ".")
	region, regional := strings.CutPrefix(node, regionToken)
	if !regional {
		return node, node, ""
	}
	node, _, _ = strings.Cut(after, ".")
	return RegionalAddress(region, node), node, region
}
