package adminapi

import "time"

// Time is a time in JSON: UTC, RFC 3339 with microseconds, null when it is zero.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)), nil
}
