package httpfront

import (
	"net/http"
	"strconv"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
)

// Headers that the front adds to what the gate and the handlers answer, by conventions
// of HTTP that they need not know.

// addLimits adds to the gate's headers what its rate-limit headers say in the form of
// draft-ietf-httpapi-ratelimit-headers, for clients that know only that:
//
//	RateLimit-Policy: "default";q=100;w=60
//	RateLimit: "default";r=99;t=1
//
// where t counts the seconds until the bucket is full again, rounded up.
func addLimits(gate *abi.Response) {
	var limit, remaining string
	reset := int64(-1)
	for i := range gate.Headers {
		switch h := &gate.Headers[i]; h.Name {
		case "x-ratelimit-limit":
			limit = h.Value
		case "x-ratelimit-remaining":
			remaining = h.Value
		case "x-ratelimit-reset-ms":
			if ms, err := strconv.ParseInt(h.Value, 10, 64); err == nil {
				reset = (ms + 999) / 1000
			}
		}
	}
	if limit == "" || remaining == "" || reset < 0 {
		return
	}
	var memory [96]byte
	text := append(memory[:0], `"default";q=`...)
	text = append(append(text, limit...), ";w=60"...)
	policy := len(text)
	text = append(append(text, `"default";r=`...), remaining...)
	text = strconv.AppendInt(append(text, ";t="...), reset, 10)
	both := string(text)
	gate.Headers = append(gate.Headers,
		abi.Header{Name: "ratelimit-policy", Value: both[:policy]}, abi.Header{Name: "ratelimit", Value: both[policy:]})
}

// helpLinks returns the values of Link for the refusals that the guide explains.
func helpLinks() map[Refusal][]string {
	links := make(map[Refusal][]string)
	link := func(to string) []string { return []string{"<" + answer.HelpPath + "#" + to + `>; rel="help"`} }
	for _, r := range answer.Refusals() {
		links[Refusal{Code: r.Code}] = link(r.Code)
		for _, reason := range r.Reasons {
			links[Refusal{r.Code, reason.Name}] = link(r.Code + "-" + reason.Name)
		}
	}
	return links
}

// noBrowsers answers a browser's question whether a page of another site may call the
// API. Without headers Access-Control-Allow-* it may not; the body says why.
var noBrowsers = []byte(`{"error":"cors_not_allowed","reason":"keys_do_not_belong_in_browsers"}`)

// isPreflight reports whether a request is such a question.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header["Origin"] != nil && r.Header["Access-Control-Request-Method"] != nil
}
