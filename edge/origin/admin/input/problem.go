// Package input reads what callers of the admin API send, holds it to its rules, and
// names what is wrong with it.
package input

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"partneredge/edge/adminapi"
)

// Problem is an error that the answer describes, as an adminapi.Problem.
type Problem struct {
	Kind, Reason, Detail string
	RetryAfter           time.Duration // of rate_limited
}

// Body returns what the answer says of the problem.
func (p *Problem) Body() adminapi.Problem {
	return adminapi.Problem{Kind: p.Kind, Reason: p.Reason, Detail: p.Detail}
}

func (p *Problem) Error() string { return strings.TrimSpace(p.Kind + " " + p.Reason) }

// Kinds of problem, beside those that begin with "invalid_".
const (
	KindForbidden   = "forbidden"
	KindNotFound    = "not_found"
	KindMethod      = "method_not_allowed"
	KindConflict    = "conflict"
	KindTooLarge    = "payload_too_large"
	KindLimited     = "rate_limited"
	KindInternal    = "internal_error"
	KindIdempotency = "idempotency_conflict"

	KindBody      = "invalid_body"
	KindParameter = "invalid_parameter"
)

// Status returns the HTTP status of the problem: 400 for the kinds that begin
// with "invalid_", 500 for those that are not listed.
func (p *Problem) Status() int {
	if strings.HasPrefix(p.Kind, "invalid_") {
		return http.StatusBadRequest
	}
	status := map[string]int{
		KindForbidden:   http.StatusForbidden,
		KindNotFound:    http.StatusNotFound,
		KindMethod:      http.StatusMethodNotAllowed,
		KindConflict:    http.StatusConflict,
		KindIdempotency: http.StatusConflict,
		KindLimited:     http.StatusTooManyRequests,
		KindTooLarge:    http.StatusRequestEntityTooLarge,
	}[p.Kind]
	return cmp.Or(status, http.StatusInternalServerError)
}
