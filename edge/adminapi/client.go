package adminapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"
)

const (
	base      = "/admin/v1"
	maxAnswer = 16 << 20 // bytes of one answer that are read
)

// ErrTooLong is the error of a Call whose answer is longer than a Client reads.
var ErrTooLong = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)

// Timeout bounds a call of a Client without an HTTP client of its own.
const Timeout = 30 * time.Second

// Client calls the admin API. It is safe for concurrent use.
type Client struct {
	URL   string // of the listener, such as http://127.0.0.1:8090
	Token string
	// HTTP sends the requests; its CheckRedirect is not asked, since no redirect is
	// followed. nil: a client with a timeout of 30 s. Use Handler as its Transport to
	// call an API in the same process.
	HTTP *http.Client
}

// Problem is the body of an answer other than 2xx.
type Problem struct {
	Kind   string `json:"error"`
	Reason string `json:"reason,omitempty"` // for programs
	Detail string `json:"detail,omitempty"` // for people
}

// Error reports an answer other than 2xx. Its Problem is empty when the answer
// did not come from the admin API, but from a proxy before it.
type Error struct {
	Method, Path string // Path is below /admin/v1
	Status       int
	// Location is the URL that a redirect names, without /admin/v1 and Path at its end.
	Location string
	Problem
}

func (e *Error) Error() string {
	text := fmt.Sprintf("admin API: %s %s: status %d", e.Method, e.Path, e.Status)
	if e.Kind != "" {
		text += ": " + strings.TrimSpace(e.Kind+" "+e.Reason)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Location != "" {
		text += ": redirect to " + e.Location
	}
	return text
}

// Call sends in, unless it is nil, to path below /admin/v1, and unmarshals the
// answer into out, unless that is nil. It returns an *Error for an answer other
// than 2xx.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	resp, err := c.send(ctx, method, path, in, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
	case len(answer) > maxAnswer:
		err = ErrTooLong
	case out != nil:
		err = json.Unmarshal(answer, out)
	}
	if err != nil {
		return fmt.Errorf("admin API: %s %s: %w", method, path, err)
	}
	return nil
}

// client returns the HTTP client of c. It follows no redirect, which would make a read of
// a change.
func (c *Client) client() *http.Client {
	client := http.Client{Timeout: Timeout}
	if c.HTTP != nil {
		client = *c.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &client
}

// patient returns a client that waits for an answer for as long as ctx does.
func (c *Client) patient() *Client {
	waits := c.client()
	waits.Timeout = 0
	return &Client{URL: c.URL, Token: c.Token, HTTP: waits}
}

// send returns the response to one request, whose status is 2xx.
func (c *Client) send(ctx context.Context, method, path string, in any, header http.Header) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("admin API: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+base+path, body)
	if err != nil {
		return nil, fmt.Errorf("admin API: %w", err)
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Authorization", "Bearer "+c.Token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client().Do(req)
	if err != nil {
		return nil, fmt.Errorf("admin API: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	refused := &Error{Method: method, Path: path, Status: resp.StatusCode}
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	_ = json.Unmarshal(answer, &refused.Problem) // a proxy's answer stays empty
	if location, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		refused.Location = strings.TrimSuffix(location.String(), base+path)
	}
	return nil, refused
}

// List is one page of a list. NextCursor is empty on the last page.
type List[T any] struct {
	Items      []T    `json:"items"`
	NextCursor Cursor `json:"next_cursor"`
}

// Cursor asks for the page after another as ?cursor. JSON has null for "".
type Cursor string

// MarshalJSON implements json.Marshaler.
func (c Cursor) MarshalJSON() ([]byte, error) {
	if c == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(c))
}

// All reads the items of a list, page by page. A limit in query is the size of a
// page; without one it is the largest, 200. An error ends the list.
func All[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := maps.Clone(query)
		if query == nil {
			query = url.Values{}
		}
		if !query.Has("limit") {
			query.Set("limit", "200")
		}
		for {
			var page List[T]
			if err := c.Call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			query.Set("cursor", string(page.NextCursor))
		}
	}
}

// CreateAccount makes an account.
func (c *Client) CreateAccount(ctx context.Context, in NewAccount) (made Account, err error) {
	err = c.Call(ctx, http.MethodPost, "/accounts", in, &made)
	return made, err
}

// CreateKey makes a key of an account.
func (c *Client) CreateKey(ctx context.Context, account string, in NewKey) (made MintedKey, err error) {
	err = c.Call(ctx, http.MethodPost, "/accounts/"+url.PathEscape(account)+"/keys", in, &made)
	return made, err
}

// EraseAccount deletes an account and all that is kept of it, however long that takes.
func (c *Client) EraseAccount(ctx context.Context, account string) (gone ErasedAccount, err error) {
	err = c.patient().Call(ctx, http.MethodDelete, "/accounts/"+url.PathEscape(account), nil, &gone)
	return gone, err
}

// Bury deletes a lead or an account again that was deleted before, however long that takes.
func (c *Client) Bury(ctx context.Context, in NewTombstone) (buried Tombstone, err error) {
	err = c.patient().Call(ctx, http.MethodPost, "/tombstones", in, &buried)
	return buried, err
}

// EnrolNode makes a node and its credentials.
func (c *Client) EnrolNode(ctx context.Context, name, region string) (made EnrolledNode, err error) {
	err = c.Call(ctx, http.MethodPost, "/nodes", NewNode{&name, &region}, &made)
	return made, err
}

// Handler is an http.RoundTripper that has an admin API in the same process
// serve the requests. It holds a whole answer in memory, so it is of no use for
// streams.
type Handler struct {
	http.Handler
	RemoteAddr string // that the API takes the requests to come from, as of http.Request
}

// RoundTrip implements http.RoundTripper.
func (h Handler) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.RemoteAddr = h.RemoteAddr
	if req.Body == nil {
		req.Body = http.NoBody
	}
	recorded := httptest.NewRecorder()
	h.ServeHTTP(recorded, req)
	_ = req.Body.Close() // of memory
	answer := recorded.Result()
	answer.Request = req
	return answer, nil
}
