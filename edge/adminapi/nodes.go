package adminapi

// NewNode is the request that enrols a node.
type NewNode struct {
	Name   *string `json:"name,omitempty"`
	Region *string `json:"region,omitempty"`
}

// EnrolledNode is a new node with its credentials.
type EnrolledNode struct {
	Node        Node   `json:"node"`
	Credentials string `json:"credentials"` // text of the node's --credentials file
}

// Node is an enrolled node.
type Node struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Region     string `json:"region"`
	PublicKey  string `json:"public_key"`
	CreatedAt  Time   `json:"created_at"`
	RevokedAt  Time   `json:"revoked_at"`
	LastSeenAt Time   `json:"last_seen_at"`
	// Build is the version of the program that the node last ran.
	Build     string `json:"build"`
	Connected bool   `json:"connected"`
	// Release names the release that answers most of the node's requests, by its last status; null before
	// the node reported one. Its state is own_modules, serving, or rolling_out while a
	// rollback would undo it.
	Release *NodeRelease `json:"release"`
	Status  *NodeStatus  `json:"status"` // null before the node reported one
}

// NodeStatus is the last status that a node reported.
type NodeStatus struct {
	Region    string       `json:"region"`
	Build     string       `json:"build"` // version of the program
	Seq       int64        `json:"seq"`   // of the last change that the node applied
	Outbox    int          `json:"outbox"`
	HotKeys   int          `json:"hot_keys"`
	Sandboxes int          `json:"sandboxes"`
	Running   *NodeRelease `json:"running"`
	Candidate *NodeRelease `json:"candidate"`
}

// NodeRelease is a release on a node.
type NodeRelease struct {
	ID      string `json:"id"` // "" for the modules of the node's own disk
	Digest  string `json:"digest"`
	Version string `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
	Percent int    `json:"percent"` // of the node's requests that the release answers
}

// Traffic is the traffic of each region over the last five minutes.
type Traffic struct {
	StepSeconds  int             `json:"step_seconds"` // between two points
	LatestChange int64           `json:"latest_change"`
	Regions      []RegionTraffic `json:"regions"`
}

// RegionTraffic is the traffic of the nodes of one region.
type RegionTraffic struct {
	Region        string         `json:"region"`
	Nodes         int            `json:"nodes"`
	Connected     int            `json:"connected"`
	ChangesBehind int64          `json:"changes_behind"` // of the node that lags most
	Outbox        int            `json:"outbox"`         // leads waiting, by each node's last report
	Points        []TrafficPoint `json:"points"`         // oldest first
}

// TrafficPoint is the traffic of one step.
type TrafficPoint struct {
	At       Time     `json:"at"`
	Heard    bool     `json:"heard"` // false: no node told of the step, and its counts are not known
	Requests uint64   `json:"requests"`
	Errors   uint64   `json:"errors"`
	Limited  uint64   `json:"limited"`
	P50      *float64 `json:"p50_ms"` // null without requests
	P99      *float64 `json:"p99_ms"`
}
