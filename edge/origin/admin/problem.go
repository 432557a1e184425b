package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
	"partneredge/store/central/db"
	"partneredge/store/central/idempotency"
)

// problem is an error that the answer describes, as an adminapi.Problem.
type problem struct {
	Kind, Reason, Detail string
	retryAfter           time.Duration // of rate_limited
}

func (p *problem) body() adminapi.Problem {
	return adminapi.Problem{Kind: p.Kind, Reason: p.Reason, Detail: p.Detail}
}

func (p *problem) Error() string { return strings.TrimSpace(p.Kind + " " + p.Reason) }

// Kinds of problem, beside those that begin with "invalid_".
const (
	kindForbidden   = "forbidden"
	kindNotFound    = "not_found"
	kindMethod      = "method_not_allowed"
	kindConflict    = "conflict"
	kindTooLarge    = "payload_too_large"
	kindLimited     = "rate_limited"
	kindInternal    = "internal_error"
	kindIdempotency = "idempotency_conflict"

	kindBody      = "invalid_body"
	kindParameter = "invalid_parameter"
)

// status returns the HTTP status of the problem: 400 for the kinds that begin
// with "invalid_", 500 for those that are not listed.
func (p *problem) status() int {
	if strings.HasPrefix(p.Kind, "invalid_") {
		return http.StatusBadRequest
	}
	status := map[string]int{
		kindForbidden:   http.StatusForbidden,
		kindNotFound:    http.StatusNotFound,
		kindMethod:      http.StatusMethodNotAllowed,
		kindConflict:    http.StatusConflict,
		kindIdempotency: http.StatusConflict,
		kindLimited:     http.StatusTooManyRequests,
		kindTooLarge:    http.StatusRequestEntityTooLarge,
	}[p.Kind]
	return cmp.Or(status, http.StatusInternalServerError)
}

// problemOf maps an error to what is answered. An error that is no problem and
// of no kind of store's is the origin's own fault, and not described.
func problemOf(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, store.ErrNotFound):
		return &problem{Kind: kindNotFound}
	case errors.Is(err, idempotency.ErrKey):
		return &problem{Kind: kindIdempotency, Detail: said(err, store.ErrConflict)}
	case errors.Is(err, store.ErrConflict):
		return &problem{Kind: kindConflict, Detail: said(err, store.ErrConflict)}
	case errors.Is(err, store.ErrInvalid):
		return &problem{Kind: "invalid_value", Detail: said(err, store.ErrInvalid)}
	default:
		return &problem{Kind: kindInternal}
	}
}

// said returns the text of a store's error after its kind: it names fields and
// states, never values. What a database said is for the log alone.
func said(err, kind error) string {
	_, after, found := strings.Cut(err.Error(), kind.Error()+": ")
	if !found || strings.ContainsRune(after, '\n') || db.FromDatabase(err) {
		return ""
	}
	return after
}

// encode returns v as JSON. It leaves <, > and & as they are, which would else be
// six bytes each.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
