package central

import (
	"encoding/json"
	"fmt"
	"time"
)

// Times are kept as microseconds since the Unix epoch, 0 for the zero time.

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// scanner is a row of a query.
type scanner interface{ Scan(dest ...any) error }

// timeColumn scans a time.
type timeColumn struct{ into *time.Time }

func asTime(into *time.Time) timeColumn { return timeColumn{into} }

// Scan reads what the driver gives: an int64, or NULL as the zero time.
func (c timeColumn) Scan(value any) error {
	switch v := value.(type) {
	case int64:
		*c.into = timeOf(v)
	case nil:
		*c.into = time.Time{}
	default:
		return fmt.Errorf("read time: %T", value)
	}
	return nil
}

// jsonColumn scans a value that is kept as JSON text.
type jsonColumn struct{ into any }

func asJSON(into any) jsonColumn { return jsonColumn{into} }

// Scan reads what the driver gives: text or bytes; NULL changes nothing.
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

// hashColumn scans a SHA-256.
type hashColumn struct{ into *[32]byte }

// Scan reads what the driver gives: 32 bytes.
func (c hashColumn) Scan(value any) error {
	b, ok := value.([]byte)
	if !ok || len(b) != len(c.into) {
		return fmt.Errorf("read hash: %T of %d bytes", value, len(b))
	}
	copy(c.into[:], b)
	return nil
}

// jsonText is v as JSON; v is of a kind that always has one.
func jsonText(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}
