package admin

import (
	"errors"
	"net/http"
	"strconv"

	"partneredge/store"
)

// maxPage is the longest list in one answer.
const maxPage = 200

// listView is how every list is answered. Its cursor, given back as ?cursor,
// asks for the items after the last; null at the end.
type listView[V any] struct {
	Items      []V     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

// list answers with the page that the request asks for, each record shown by
// view.
func list[T, V any](r *http.Request, read func(store.Page) ([]T, string, error), view func(T) (V, error)) (answer, error) {
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
	v := listView[V]{Items: make([]V, 0, len(items))}
	for _, item := range items {
		shown, err := view(item)
		if err != nil {
			return answer{}, err
		}
		v.Items = append(v.Items, shown)
	}
	if next != "" {
		v.NextCursor = &next
	}
	return ok(v)
}

// shown makes a view that cannot fail into one for list.
func shown[T, V any](view func(T) V) func(T) (V, error) {
	return func(t T) (V, error) { return view(t), nil }
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
