package adminapi

// KeyUse counts the requests with a key in the last days.
type KeyUse struct {
	LastUsedAt Time  `json:"last_used_at"` // to the minute
	Days       int   `json:"days"`
	Requests   int64 `json:"requests"` // those refused with 429 among them
	Limited    int64 `json:"limited"`  // refused with 429
}

// KeyDay counts the requests with a key on a day, at all nodes.
type KeyDay struct {
	Day      string `json:"day"` // in UTC, such as 2026-01-31
	Requests int64  `json:"requests"`
	Limited  int64  `json:"limited"`
}
