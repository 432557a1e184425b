package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
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
	kindUnauthorized = "unauthorized"
	kindForbidden    = "forbidden"
	kindNotFound     = "not_found"
	kindMethod       = "method_not_allowed"
	kindConflict     = "conflict"
	kindTooLarge     = "payload_too_large"
	kindLimited      = "rate_limited"
	kindInternal     = "internal_error"

	kindBody      = "invalid_body"
	kindParameter = "invalid_parameter"
)

// status of each kind.
func (p *problem) status() int {
	if strings.HasPrefix(p.Kind, "invalid_") {
		return http.StatusBadRequest
	}
	switch p.Kind {
	case kindUnauthorized:
		return http.StatusUnauthorized
	case kindForbidden:
		return http.StatusForbidden
	case kindNotFound:
		return http.StatusNotFound
	case kindMethod:
		return http.StatusMethodNotAllowed
	case kindConflict:
		return http.StatusConflict
	case kindLimited:
		return http.StatusTooManyRequests
	case kindTooLarge:
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusInternalServerError
	}
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
	case errors.Is(err, store.ErrConflict):
		return &problem{Kind: kindConflict, Detail: said(err, store.ErrConflict)}
	case errors.Is(err, store.ErrInvalid):
		return &problem{Kind: "invalid_value", Detail: said(err, store.ErrInvalid)}
	default:
		return &problem{Kind: kindInternal}
	}
}

// said is what the store had to say after its kind: it names fields and states,
// never values.
func said(err, kind error) string {
	_, after, found := strings.Cut(err.Error(), kind.Error()+": ")
	if !found || strings.ContainsRune(after, '\n') || strings.Contains(after, "SQL") {
		return ""
	}
	return after
}

// encode leaves <, > and & as they are, which would else be six bytes each.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// maxPage is the longest list in one answer.
const maxPage = 200

// list answers with the page that the request asks for, each record converted.
func list[T, V any](r *http.Request, read func(store.Page) ([]T, string, error), convert func(T) V) (answer, error) {
	page, err := pageOf(r)
	if err != nil {
		return answer{}, err
	}
	items, next, err := read(page)
	if err != nil {
		if page.Cursor != "" && errors.Is(err, store.ErrInvalid) {
			return answer{}, &problem{Kind: kindParameter, Reason: "cursor_invalid", Detail: "cursor must be a next_cursor of this list"}
		}
		return answer{}, err
	}
	all := adminapi.List[V]{Items: make([]V, 0, len(items)), NextCursor: adminapi.Cursor(next)}
	for _, item := range items {
		all.Items = append(all.Items, convert(item))
	}
	return ok(all)
}

// pageOf reads ?limit (default 50, held to 1 to 200) and ?cursor.
func pageOf(r *http.Request) (store.Page, error) {
	query := r.URL.Query()
	page := store.Page{Cursor: query.Get("cursor")}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return page, &problem{Kind: kindParameter, Reason: "limit_not_integer", Detail: "limit must be an integer"}
		}
		page.Limit = min(max(n, 1), maxPage)
	}
	return page, nil
}
