package adminapi

import "time"

// RolloutPause is the default of a NewRollout's pause.
const RolloutPause = 30 * time.Second

// NewRelease is the request that makes what the registry has under a digest, or
// under a tag or a digest, a release.
type NewRelease struct {
	Digest    *string `json:"digest,omitempty"`
	Reference *string `json:"reference,omitempty"`
}

// Release is a signed set of modules.
type Release struct {
	ID        string          `json:"id"`
	Version   string          `json:"version"`
	Digest    string          `json:"digest"`
	Size      int64           `json:"size"` // bytes
	Modules   []ReleaseModule `json:"modules"`
	Signers   []ReleaseSigner `json:"signers"`
	CreatedAt Time            `json:"created_at"`
}

// ReleaseModule is a module of a release.
type ReleaseModule struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes
}

// ReleaseSigner is a key that signed a release.
type ReleaseSigner struct {
	KeyID   string `json:"key_id"`
	Comment string `json:"comment"`
}

// NewRollout is the request that promotes a release. Without nodes and regions it
// goes to every node.
type NewRollout struct {
	Nodes         []string `json:"nodes,omitempty"` // ids or names
	Regions       []string `json:"regions,omitempty"`
	Percent       *int64   `json:"percent,omitempty"`        // of these nodes; default 100
	Stages        []int64  `json:"stages,omitempty"`         // percent of the nodes; default 1, 10, 50, 100
	PauseSeconds  *int64   `json:"pause_seconds,omitempty"`  // default 30
	CanaryPercent *int64   `json:"canary_percent,omitempty"` // default 0: no canary, and latency is not compared
}

// Rollout is a release on its way to the nodes.
type Rollout struct {
	ID            string        `json:"id"`
	ReleaseID     string        `json:"release_id"`
	Digest        string        `json:"digest"`
	Version       string        `json:"version"`
	State         string        `json:"state"`
	Reason        string        `json:"reason"` // of a rollback
	Stages        []int         `json:"stages"`
	Stage         int           `json:"stage"`          // percent of the nodes that the rollout has reached
	CanaryPercent int           `json:"canary_percent"` // of a node's requests
	Trying        bool          `json:"trying"`         // the nodes of the stage give the release canary_percent only
	PauseSeconds  float64       `json:"pause_seconds"`
	Everywhere    bool          `json:"everywhere"`
	Since         Time          `json:"since"` // when all nodes of the step served the release; null before
	CreatedAt     Time          `json:"created_at"`
	UpdatedAt     Time          `json:"updated_at"`
	Serving       int           `json:"serving"` // nodes that answer by the release; with nodes=false of the newest alone
	NodeCount     int           `json:"node_count"`
	Nodes         []RolloutNode `json:"nodes"` // none in a list that is asked for with nodes=false
}

// RolloutNode is a node of a rollout.
type RolloutNode struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Region    string `json:"region"`
	Connected bool   `json:"connected"`
	Before    string `json:"before"` // digest of the release before; "" for the modules of the node's own disk
	Percent   int    `json:"percent"`
	// State is waiting, fetching, preparing, smoke, ready, serving, refused, failed
	// or back.
	State    string `json:"state"`
	Reason   string `json:"reason"`
	Requests uint64 `json:"requests"` // that the release answered since the node opened it
	Errors   uint64 `json:"errors"`
	Failures uint64 `json:"failures"`
}
