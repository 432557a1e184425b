// Package sentinels answers requests for the firings of an account's sentinels.
package sentinels

import (
	"slices"
	"strconv"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/handlers"
	"partneredge/wasm/handlers/query"
	"partneredge/wasm/isotime"
)

const (
	defaultLimit = 25
	maxLimit     = 100
)

// Handle answers GET /api/v2/public/sentinels/firings.
func Handle(req *abi.Request, resp *abi.Response, views handlers.Views) {
	limit, ok := query.Int(req.Query, "limit", defaultLimit, 1, maxLimit)
	if !ok {
		answer.Error(resp, 400, "invalid_parameter", "limit_not_integer")
		return
	}
	before, given, ok := query.TimeUp(req.Query, "cursor")
	if !ok {
		answer.Error(resp, 400, "invalid_parameter", "cursor_not_iso8601")
		return
	}
	if given {
		before = max(before, 1) // 0 means no limit, and no firing is as old as the epoch
	}
	var list abi.Firings
	if err := views.Firings(before, limit, &list); err != nil {
		answer.Internal(resp)
		return
	}

	size := 100 // enough for all: growing step by step takes several times the memory
	for i := range list.Items {
		it := &list.Items[i]
		size += 150 + len(it.ID) + len(it.Name) + len(it.Data) + len(it.Action)
	}
	b := append(slices.Grow(resp.Body[:0], size), `{"firings":[`...)
	b = answer.AppendList(b, list.Items, appendFiring)
	b = strconv.AppendInt(append(b, `],"count":`...), int64(len(list.Items)), 10)
	b = append(b, `,"next_cursor":`...)
	if n := len(list.Items); n > 0 && list.More {
		b = append(isotime.Append(append(b, '"'), list.Items[n-1].Triggered), '"')
	} else {
		b = append(b, "null"...)
	}
	b = strconv.AppendInt(append(b, `,"limit":`...), int64(limit), 10)
	resp.Status = 200
	resp.Body = append(b, '}')
}

func appendFiring(b []byte, it *abi.Firing) []byte {
	b = answer.AppendString(append(b, `{"id":`...), it.ID)
	b = answer.AppendText(append(b, `,"sentinel_name":`...), it.Name)
	b = isotime.Append(append(b, `,"triggered_at":"`...), it.Triggered)
	b = append(b, `","trigger_data":`...)
	if len(it.Data) == 0 {
		b = append(b, "{}"...)
	} else {
		b = append(b, it.Data...) // the host has validated it as a JSON object
	}
	b = answer.AppendText(append(b, `,"action_taken":`...), it.Action)
	return append(b, '}')
}
