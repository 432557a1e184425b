// Package coaching answers requests for an account's coaching insights.
package coaching

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
	defaultLimit = 10
	maxLimit     = 50
)

// Handle answers GET /api/v2/public/coaching/insights.
func Handle(req *abi.Request, resp *abi.Response, views handlers.Views) {
	limit, ok := query.Int(req.Query, "limit", defaultLimit, 1, maxLimit)
	if !ok {
		answer.Error(resp, 400, "invalid_parameter", "limit_not_integer")
		return
	}
	since, given, ok := query.Time(req.Query, "since")
	if !ok {
		answer.Error(resp, 400, "invalid_parameter", "since_not_iso8601")
		return
	}
	if given && since == 0 {
		since = -1 // 0 means no limit, and no insight is as old as the epoch
	}
	var list abi.Insights
	if err := views.Insights(since, limit, &list); err != nil {
		answer.Internal(resp)
		return
	}
	source, note := "coaching_run", ""
	if !list.History {
		source, note = "fallback", sampleNote
		list.Items = samplesAfter(since, given, limit)
	}

	size := 100 + len(note) // enough for all: growing step by step takes several times the memory
	for i := range list.Items {
		it := &list.Items[i]
		size += 150 + len(it.ID) + len(it.Headline) + len(it.Detail)
	}
	b := append(slices.Grow(resp.Body[:0], size), `{"insights":[`...)
	b = answer.AppendList(b, list.Items, func(b []byte, it *abi.Insight) []byte {
		return appendInsight(b, it, source)
	})
	b = strconv.AppendInt(append(b, `],"count":`...), int64(len(list.Items)), 10)
	b = strconv.AppendInt(append(b, `,"limit":`...), int64(limit), 10)
	b = answer.AppendOptional(append(b, `,"note":`...), note)
	resp.Status = 200
	resp.Body = append(b, '}')
}

func appendInsight(b []byte, it *abi.Insight, source string) []byte {
	b = answer.AppendString(append(b, `{"id":`...), it.ID)
	b = answer.AppendText(append(b, `,"headline":`...), it.Headline)
	b = answer.AppendText(append(b, `,"detail":`...), it.Detail)
	b = isotime.Append(append(b, `,"created_at":"`...), it.Created)
	b = answer.AppendString(append(b, `","source":`...), source)
	return append(b, '}')
}
