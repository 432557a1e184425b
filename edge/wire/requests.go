package wire

import "time"

// MaxRequests bounds the requests that one RequestsReply lists.
const MaxRequests = 256

// RequestsRequest asks a node about requests that it answered: the one with an ID, or
// else the newest that all of the rest selects. An older node goes by key and account
// alone.
type RequestsRequest struct {
	Head
	ID        string `json:"id,omitempty"`
	KeyID     string `json:"key_id,omitempty"`
	AccountID string `json:"account_id,omitempty"`
	Limit     int    `json:"limit,omitempty"` // 0: MaxRequests
	// Since and Until bound when the request came: at Since or later, before Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Least and Most bound the answer's status; 0: no bound.
	Least int `json:"least,omitempty"`
	Most  int `json:"most,omitempty"`
}

// Selects reports whether a request is one that is asked for.
func (r *RequestsRequest) Selects(one *AnsweredRequest) bool {
	return (r.ID == "" || r.ID == one.ID) &&
		(r.KeyID == "" || r.KeyID == one.KeyID) && (r.AccountID == "" || r.AccountID == one.AccountID) &&
		!one.At.Before(r.Since) && (r.Until.IsZero() || one.At.Before(r.Until)) &&
		one.Status >= r.Least && (r.Most == 0 || one.Status <= r.Most)
}

// RequestsReply lists requests, the newest first.
type RequestsReply struct {
	Head
	Requests []AnsweredRequest `json:"requests,omitempty"`
}

// AnsweredRequest is a request as a node's log has it: nothing that was sent, but the
// method and which route the path is of.
type AnsweredRequest struct {
	ID        string    `json:"id"` // req_…
	At        time.Time `json:"at"`
	TookUS    int64     `json:"took_us"`          // microseconds
	KeyID     string    `json:"key_id,omitempty"` // "": refused before it was known
	AccountID string    `json:"account_id,omitempty"`
	Method    string    `json:"method"`
	Route     string    `json:"route,omitempty"` // "": no route has the path
	Status    int       `json:"status"`
	Code      string    `json:"code,omitempty"` // the field error of the answer
	Reason    string    `json:"reason,omitempty"`
}
