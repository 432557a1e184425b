package db

import (
	"encoding/json"
	"fmt"
	"time"

	"partneredge/store"
	"partneredge/wasm/typeid"
)

// TimeOr returns t as it is kept, in UTC microseconds, or fallback when t is zero.
func TimeOr(t, fallback time.Time) time.Time {
	if t.IsZero() {
		return fallback
	}
	return t.UTC().Truncate(time.Microsecond)
}

// FirstID returns what sorts before every identifier made at t or later.
func FirstID(prefix string, t time.Time) string {
	if t.IsZero() {
		return prefix
	}
	return typeid.Make(prefix, t.UnixMilli(), [10]byte{})
}

// Bit returns 1 for true and 0 for false, as booleans are kept.
func Bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// JSONText returns v as JSON. v must be of a kind that always has one.
func JSONText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// Time scans a time into t: NULL as the zero time.
func Time(t *time.Time) any { return timeColumn{t} }

type timeColumn struct{ into *time.Time }

// Scan implements sql.Scanner.
func (c timeColumn) Scan(value any) error {
	switch v := value.(type) {
	case int64:
		*c.into = store.TimeOf(v)
	case nil:
		*c.into = time.Time{}
	default:
		return fmt.Errorf("read time: %T", value)
	}
	return nil
}

// JSON scans what is kept as JSON text into what v points to, which NULL leaves
// as it is.
func JSON(v any) any { return jsonColumn{v} }

type jsonColumn struct{ into any }

// Scan implements sql.Scanner.
func (c jsonColumn) Scan(value any) error {
	switch v := value.(type) {
	case string:
		return json.Unmarshal([]byte(v), c.into)
	case []byte:
		return json.Unmarshal(v, c.into)
	case nil:
		return nil
	}
	return fmt.Errorf("read JSON: %T", value)
}

// Hash scans a SHA-256 into h. One that is damaged leaves h zero, which nothing is kept under:
// it is to hold up no other row of a list.
func Hash(h *[32]byte) any { return hashColumn{h} }

type hashColumn struct{ into *[32]byte }

// Scan implements sql.Scanner.
func (c hashColumn) Scan(value any) error {
	*c.into = [32]byte{}
	if b, ok := value.([]byte); ok && len(b) == len(c.into) {
		copy(c.into[:], b)
	}
	return nil
}
