// Package coaching answers an account's coaching insights.
package coaching

import (
	"slices"
	"strconv"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/handlers"
	"partneredge/wasm/handlers/query"
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
		since = -1 // 0 would mean none given; nothing is created at the epoch itself
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

	size := 100 + len(note) // as much as is needed: growing by and by takes several times the memory
	for i := range list.Items {
		it := &list.Items[i]
		size += 150 + len(it.ID) + len(it.Headline) + len(it.Detail)
	}
	b := append(slices.Grow(resp.Body[:0], size), `{"insights":[`...)
	for i := range list.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendInsight(b, &list.Items[i], source)
	}
	b = strconv.AppendInt(append(b, `],"count":`...), int64(len(list.Items)), 10)
	b = strconv.AppendInt(append(b, `,"limit":`...), int64(limit), 10)
	b = append(b, `,"note":`...)
	if note == "" {
		b = append(b, "null"...)
	} else {
		b = answer.AppendString(b, note)
	}
	resp.Status = 200
	resp.Body = append(b, '}')
}

func appendInsight(b []byte, it *abi.Insight, source string) []byte {
	b = answer.AppendString(append(b, `{"id":`...), it.ID)
	b = answer.AppendString(append(b, `,"headline":`...), it.Headline)
	b = answer.AppendString(append(b, `,"detail":`...), it.Detail)
	b = answer.AppendTime(append(b, `,"created_at":"`...), it.Created)
	b = answer.AppendString(append(b, `","source":`...), source)
	return append(b, '}')
}
