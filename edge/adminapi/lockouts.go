package adminapi

// Lockouts lists the addresses that nodes refuse after failed authentications. An
// address may be locked out at several nodes.
type Lockouts struct {
	Items     []Lockout       `json:"items"`
	Total     int             `json:"total"`     // of all that there are; a node lists 1 000 at most
	Unreached []UnreachedNode `json:"unreached"` // what is locked out there is not known
}

// Lockout is an address that one node refuses for a time.
type Lockout struct {
	Address string `json:"address"` // for IPv6 its /64
	NodeID  string `json:"node_id"`
	Node    string `json:"node"` // its name
	Region  string `json:"region"`
	Until   Time   `json:"until"`
}

// UnreachedNode is an enrolled node that did not answer.
type UnreachedNode struct {
	NodeID string `json:"node_id"`
	Node   string `json:"node"`
	Region string `json:"region"`
	Reason string `json:"reason"`
}

// LockoutSelection is the request that ends lockouts. One of its fields is set.
type LockoutSelection struct {
	Network *string `json:"network,omitempty"` // an address, or a network in CIDR form
	All     *bool   `json:"all,omitempty"`
}

// ClearedLockouts counts the lockouts that were ended at the nodes that answered.
type ClearedLockouts struct {
	Cleared   int             `json:"cleared"`
	Unreached []UnreachedNode `json:"unreached"` // whose lockouts, if any, go on
}
