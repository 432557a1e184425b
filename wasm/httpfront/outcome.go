package httpfront

import (
	"bytes"
	"net/http"
	"time"

	"partneredge/wasm/abi"
)

// Outcome describes a request and its answer. It holds nothing of what was sent but the
// method: of the path only the route, and no query.
type Outcome struct {
	RequestID string // of WithRequestID; "" without it
	At        time.Time
	Took      time.Duration
	// Principal is whom the gate knows the key to be of, also where it refused it. Its
	// texts are valid during the call of Answered. Zero: the key is not known.
	Principal abi.Principal
	Method    string  // _OTHER for one that HTTP does not define
	Route     string  // the pattern, such as /api/v2/public/webhooks/{id}; "": none has the path
	Handler   string  // "" if the gate answered
	Status    int     // ClientGone if the client was gone and nothing could be answered
	Refusal   Refusal // zero unless Status is 400 or more
	// Outside says of a Status of 500 or more that its cause lies outside the modules: one
	// called what failed or was unavailable, or had no sandbox.
	Outside bool
}

// ClientGone is the status of a request that was not answered since its client went away, in
// place of a fault's. It is nginx's.
const ClientGone = 499

// Refusal holds the fields error and reason of an answer's body.
type Refusal struct{ Code, Reason string }

// conclude completes the outcome.
func (x *exchange) conclude(start time.Time, handler string, status int) {
	o := &x.outcome
	if ids := x.w.Header()[RequestID]; len(ids) > 0 {
		o.RequestID = ids[0]
	}
	o.At, o.Took = start, x.front.Now().Sub(start)
	o.Principal, o.Method, o.Handler, o.Status = x.gate.Principal, MethodName(x.req.Method), handler, status
	o.Outside = x.outside && status >= http.StatusInternalServerError
	if x.front.Routes != nil {
		o.Route, x.params = x.front.Routes.Pattern(x.req.Path, x.params[:0])
	}
}

// MethodName returns a method that HTTP defines, or one name for all others: clients can
// send any.
func MethodName(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "_OTHER"
}

// refusalOf reads the code and the reason from the start of a body that package answer
// wrote, or one like it. It is zero for any other body, and takes no text that could be
// anything but a name of the API: lower-case letters, digits and _.
func refusalOf(body []byte) (r Refusal) {
	code, rest := nameAfter(body, `{"error":"`)
	reason, _ := nameAfter(rest, `,"reason":"`)
	return Refusal{string(code), string(reason)}
}

// nameAfter returns the name that follows prefix up to a quote, and what comes after it.
func nameAfter(b []byte, prefix string) (name, rest []byte) {
	b, found := bytes.CutPrefix(b, []byte(prefix))
	if !found {
		return nil, nil
	}
	name, rest, found = bytes.Cut(b, []byte(`"`))
	if !found || len(name) > 64 || len(bytes.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_")) > 0 {
		return nil, nil
	}
	return name, rest
}
