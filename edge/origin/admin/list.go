package admin

import (
	"errors"
	"net/http"
	"strconv"

	"partneredge/edge/adminapi"
	"partneredge/store"
)

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
