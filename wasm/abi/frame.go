package abi

import (
	"slices"
	"strconv"
	"unsafe"
)

// Header is one HTTP header; a name may come more than once.
// Names are in lower case.
type Header struct{ Name, Value string }

// Environment of a key: EnvLive or EnvTest.
type Environment string

// Environments.
const (
	EnvLive Environment = "live"
	EnvTest Environment = "test"
)

// Scopes is a set of scopes, one bit each.
type Scopes uint32

// Scopes a key may have.
const (
	ReadAgent Scopes = 1 << iota
	ReadCoaching
	ReadSentinels
	WriteWebhooks
	WriteLeads

	AllScopes = ReadAgent | ReadCoaching | ReadSentinels | WriteWebhooks | WriteLeads
)

// Principal is who a request acts for. It never holds the key itself.
type Principal struct {
	KeyID       string
	AccountID   string
	Environment Environment
	Scopes      Scopes
}

// Request is what a guest is asked.
type Request struct {
	Now       int64     // microseconds since the Unix epoch, UTC
	Random    [32]byte  // fresh for every request
	Method    string    // as sent
	Path      string    // as sent, escaped, without query
	Query     string    // as sent, without "?"
	Client    string    // the client's address as text, no port, no zone
	Principal Principal // zero for the gate
	Param     string    // the route's path parameter, unescaped; "" where none
	Headers   []Header  // only those that the manifest names, in order
	Body      []byte
}

// Request frame:
//
//	offset size
//	0      1    Version
//	1      1    reserved, 0
//	2      2    number of headers
//	4      4    scopes
//	8      8    now
//	16     32   random
//	48          bytes: method, path, query, client, key id, account id,
//	            environment, param; name and value of each header; body
//
// A GET of /x from ::1 with nothing else is 48 + (4+3) + (4+2) + 4 + (4+3) +
// 5*4 = 92 bytes.
const requestHead = 48 // bytes before the first length

// Append adds the request's frame to b.
func (r *Request) Append(b []byte) []byte {
	b = append(b, Version, 0)
	b = appendU16(b, uint16(len(r.Headers)))
	b = appendU32(b, uint32(r.Principal.Scopes))
	b = appendTime(b, r.Now)
	b = append(b, r.Random[:]...)
	b = appendBytes(b, r.Method)
	b = appendBytes(b, r.Path)
	b = appendBytes(b, r.Query)
	b = appendBytes(b, r.Client)
	b = appendBytes(b, r.Principal.KeyID)
	b = appendBytes(b, r.Principal.AccountID)
	b = appendBytes(b, string(r.Principal.Environment))
	b = appendBytes(b, r.Param)
	for _, h := range r.Headers {
		b = appendBytes(b, h.Name)
		b = appendBytes(b, h.Value)
	}
	return appendBytes(b, r.Body)
}

// Parse reads a frame into r, whose Headers' room is used again. Strings and
// Body share b's bytes.
func (r *Request) Parse(b []byte) error {
	d := newReader(b)
	head := d.take(requestHead)
	if head == nil || head[0] != Version {
		return ErrFrame
	}
	headers := int(u16(head[2:]))
	r.Principal.Scopes = Scopes(u32(head[4:]))
	r.Now = int64(u64(head[8:]))
	r.Random = [32]byte(head[16:])
	r.Method = d.str()
	r.Path = d.str()
	r.Query = d.str()
	r.Client = d.str()
	r.Principal.KeyID = d.str()
	r.Principal.AccountID = d.str()
	r.Principal.Environment = Environment(d.str())
	r.Param = d.str()
	r.Headers = r.Headers[:0]
	for i := 0; i < headers && d.ok; i++ {
		r.Headers = append(r.Headers, Header{d.str(), d.str()})
	}
	r.Body = d.bytes()
	return d.end()
}

// Header returns the only value of the header name (lower case), "" when
// there is none, and how many there are.
func (r *Request) Header(name string) (value string, count int) {
	for _, h := range r.Headers {
		if h.Name == name {
			value = h.Value
			count++
		}
	}
	return value, count
}

// Response is what a guest answers. A gate that lets the request through sets
// Handler and Principal instead of Status and Body; its Headers then go on
// whatever the handler answers.
type Response struct {
	Status    int
	Headers   []Header
	Body      []byte
	Handler   string // the module that goes on; "" when this is the answer
	Principal Principal
	Param     string // the route's path parameter, unescaped

	own []byte // see Take
}

// Response frame:
//
//	offset size
//	0      1    Version
//	1      1    reserved, 0
//	2      2    number of headers
//	4      2    status, 0 when a handler goes on
//	6      2    reserved, 0
//	8      4    scopes
//	12          bytes: handler, key id, account id, environment, param;
//	            name and value of each header; body
const responseHead = 12 // bytes before the first length

// Append adds the response's frame to b.
func (r *Response) Append(b []byte) []byte {
	b = append(b, Version, 0)
	b = appendU16(b, uint16(len(r.Headers)))
	b = appendU16(b, uint16(r.Status))
	b = append(b, 0, 0)
	b = appendU32(b, uint32(r.Principal.Scopes))
	b = appendBytes(b, r.Handler)
	b = appendBytes(b, r.Principal.KeyID)
	b = appendBytes(b, r.Principal.AccountID)
	b = appendBytes(b, string(r.Principal.Environment))
	b = appendBytes(b, r.Param)
	for _, h := range r.Headers {
		b = appendBytes(b, h.Name)
		b = appendBytes(b, h.Value)
	}
	return appendBytes(b, r.Body)
}

// Parse reads a frame into r, whose Headers' room is used again. Strings and
// Body share b's bytes.
func (r *Response) Parse(b []byte) error {
	d := newReader(b)
	head := d.take(responseHead)
	if head == nil || head[0] != Version {
		return ErrFrame
	}
	headers := int(u16(head[2:]))
	r.Status = int(u16(head[4:]))
	r.Principal.Scopes = Scopes(u32(head[8:]))
	r.Handler = d.str()
	r.Principal.KeyID = d.str()
	r.Principal.AccountID = d.str()
	r.Principal.Environment = Environment(d.str())
	r.Param = d.str()
	r.Headers = r.Headers[:0]
	for i := 0; i < headers && d.ok; i++ {
		r.Headers = append(r.Headers, Header{d.str(), d.str()})
	}
	r.Body = d.bytes()
	return d.end()
}

// Take copies a frame into room of r's own and reads it there: what it holds
// stays good until the next Take, whatever becomes of b.
func (r *Response) Take(b []byte) error {
	r.own = append(r.own[:0], b...)
	return r.Parse(r.own)
}

// Decimal is n in digits, in room of r's own: good until the next Reset or Take.
func (r *Response) Decimal(n int64) string {
	const longest = 20 // digits, and the sign
	if cap(r.own)-len(r.own) < longest {
		// Room for all that one answer says, from the first on: a guest's room is
		// that of its warm-up, whose numbers may be short.
		r.own = slices.Grow(r.own, 8*longest)
	}
	at := len(r.own)
	r.own = strconv.AppendInt(r.own, n, 10)
	return unsafe.String(&r.own[at], len(r.own)-at)
}

// Reset empties r and keeps its room.
func (r *Response) Reset() { *r = Response{Headers: r.Headers[:0], own: r.own[:0]} }
