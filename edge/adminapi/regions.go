package adminapi

// NewRegion is the request that enrols the NATS server of a region.
type NewRegion struct {
	Region *string `json:"region,omitempty"`
	// URL is the address that the server connects to; null for the origin's own NATS server.
	URL *string `json:"url,omitempty"`
	// CAFile is the file, as the server finds it, of who signs the certificate there; null
	// for the authorities that its system trusts.
	CAFile *string `json:"ca_file,omitempty"`
}

// EnrolledRegion is the NATS server of a region with what it needs.
type EnrolledRegion struct {
	Region            Region `json:"region"`
	Config            string `json:"config"`             // text of region.conf
	Credentials       string `json:"credentials"`        // text of region.creds
	SystemCredentials string `json:"system_credentials"` // text of region-system.creds
}

// Region is the NATS server of a region.
type Region struct {
	ID             string `json:"id"`
	Region         string `json:"region"` // "" of credentials that an earlier program made for all regions
	PublicKey      string `json:"public_key"`
	CreatedAt      Time   `json:"created_at"`
	RevokedAt      Time   `json:"revoked_at"`
	Connected      *bool  `json:"connected"` // null where a NATS cluster takes the servers of regions
	Nodes          int    `json:"nodes"`     // of the region
	NodesConnected int    `json:"nodes_connected"`
}
