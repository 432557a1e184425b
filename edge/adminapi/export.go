package adminapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// ExportedEnd is the kind of the last line of an export.
const ExportedEnd = "end"

// Exported is a line of the export of an account: a record and its kind, which is
// account, key, subscription, lead, quarantined_lead, contact, insight, firing, deal,
// goal, event, delivery, or end.
type Exported[T any] struct {
	Kind   string `json:"kind"`
	Record T      `json:"record"`
}

// ExportEnd is the record of an export's last line: how many records came before it,
// by kind.
type ExportEnd struct {
	Counts map[string]int64 `json:"counts"`
}

// maxExportLine bounds a line of an export, in bytes.
const maxExportLine = 4 << 20

// ExportAccount calls line with each line of an account's export but the last, which it
// returns. An export that ends without it, or with other numbers, is an error.
func (c *Client) ExportAccount(ctx context.Context, account string, line func(json.RawMessage) error) (end ExportEnd, err error) {
	path := "/accounts/" + url.PathEscape(account) + "/export"
	resp, err := c.patient().send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return end, err
	}
	defer resp.Body.Close()
	counts := make(map[string]int64)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxExportLine)
	for lines.Scan() {
		var head Exported[json.RawMessage]
		if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
			return end, fmt.Errorf("admin API: GET %s: %w", path, err)
		}
		if head.Kind != ExportedEnd {
			counts[head.Kind]++
			if err := line(json.RawMessage(lines.Bytes())); err != nil {
				return end, err
			}
			continue
		}
		if err := json.Unmarshal(head.Record, &end); err != nil {
			return end, fmt.Errorf("admin API: GET %s: %w", path, err)
		}
		for kind, n := range end.Counts {
			if counts[kind] != n {
				return end, fmt.Errorf("admin API: GET %s: %d records of kind %s came, and not %d", path, counts[kind], kind, n)
			}
		}
		return end, nil
	}
	err = lines.Err()
	if err == nil {
		err = errors.New("it has no last line, so something is missing")
	}
	return end, fmt.Errorf("admin API: GET %s was cut short: %w", path, err)
}
