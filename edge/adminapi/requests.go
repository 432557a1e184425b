package adminapi

// Requests lists requests that nodes lately answered, the newest first. Nodes keep them
// in memory, so those of a node that does not answer are not known.
type Requests struct {
	Items     []Request       `json:"items"`
	Unreached []UnreachedNode `json:"unreached"`
}

// Request is a request to the partner API as the node that answered it keeps it: nothing
// that was sent, but the method and which route the path is of.
type Request struct {
	ID         string  `json:"id"` // req_…, which the answer had in X-Request-Id
	At         Time    `json:"at"`
	NodeID     string  `json:"node_id"`
	Node       string  `json:"node"` // its name
	Region     string  `json:"region"`
	KeyID      string  `json:"key_id"`     // "": refused before the key was known
	AccountID  string  `json:"account_id"` // "": as well
	Method     string  `json:"method"`
	Route      string  `json:"route"` // such as /api/v2/public/webhooks/{id}; "": none has the path
	Status     int     `json:"status"`
	DurationMS float64 `json:"duration_ms"`
	Error      string  `json:"error"` // as the answer's body gave it; "": none
	Reason     string  `json:"reason"`
}
