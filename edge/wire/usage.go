package wire

import "partneredge/store"

// MaxUsageKeys bounds the keys of one Usage.
const MaxUsageKeys = 2000

// Usage reports what a node's keys were used for on one day: running totals of a
// counter, of which the origin keeps the largest.
type Usage struct {
	Boot string              `json:"boot"` // identifies the counter, at most MaxBootLength bytes
	Day  store.Day           `json:"day"`
	Seq  int64               `json:"seq"`  // of the report, which Used confirms
	Keys map[string]UsageKey `json:"keys"` // by key id
}

// UsageKey counts the requests with one key. Without the key's hash it is confirmed, and
// refused rather than counted, but for a node of version 1.
type UsageKey struct {
	Requests int64  `json:"r"`           // those refused among them
	Limited  int64  `json:"l,omitempty"` // refused with 429
	LastUsed int64  `json:"t"`           // seconds since the Unix epoch
	KeyHash  []byte `json:"h,omitempty"`
}

// Used names a Usage that an origin has written to the database.
type Used struct {
	Boot string `json:"boot"`
	Seq  int64  `json:"seq"`
}
