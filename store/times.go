package store

import "time"

// Micros returns a time as it is kept: microseconds since the Unix epoch, 0 for
// the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// TimeOf returns the time that Micros made us of.
func TimeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
