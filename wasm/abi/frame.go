package abi

import (
	"slices"
	"strconv"
	"unsafe"
)

// Header is one HTTP header, its name in lower case. Names may repeat.
type Header struct{ Name, Value string }

// Param is a parameter of a route's path, {id} in /api/v2/public/webhooks/{id}: its
// name without braces, and its value, percent-decoded.
type Param struct{ Name, Value string }

// Environment is the environment of a key: EnvLive or EnvTest.
type Environment string

// Environments.
const (
	EnvLive Environment = "live"
	EnvTest Environment = "test"
)

// Principal identifies on whose behalf a request acts. It never holds the key
// itself.
type Principal struct {
	KeyID       string
	AccountID   string
	Environment Environment
	Scopes      Scopes
	Own         string // own scopes, see OwnScopes; "" for none
}

// append appends the texts of p to b. Its scopes are elsewhere in a frame.
func (p *Principal) append(b []byte) []byte {
	b = appendBytes(b, p.KeyID)
	b = appendBytes(b, p.AccountID)
	return appendBytes(b, string(p.Environment))
}

func (p *Principal) parse(d *reader) {
	p.KeyID = d.str()
	p.AccountID = d.str()
	p.Environment = Environment(d.str())
}

// Request is a request to a guest.
type Request struct {
	Now       int64     // microseconds since the Unix epoch, UTC
	Random    [32]byte  // fresh for every request
	Method    string    // as sent
	Path      string    // as sent, escaped, without query
	Query     string    // as sent, without "?"
	Client    string    // the client's address as text, without port and zone
	Principal Principal // zero for the gate
	Params    []Param   // of the route's path, in its order; none for the gate
	Headers   []Header  // only those that the manifest names, in order
	Body      []byte
}

// Request frame:
//
//	offset size
//	0      1    Version
//	1      1    number of extras
//	2      2    number of headers, with the extras
//	4      4    scopes
//	8      8    now
//	16     32   random
//	48          bytes: method, path, query, client, key id, account id,
//	            environment, first; name and value of each header, of which
//	            the extras are the last; body
//
// An extra is a parameter of the route, its name in braces, or the principal's own
// scopes under the name ":scopes". A guest that does not know of extras takes them for
// headers that nobody asks it for: no HTTP header can have such a name. The field first
// is the first parameter's value, "" without any, for a guest that knows of one only.
//
// A GET of /x from ::1 with nothing else is 48 + (4+3) + (4+2) + 4 + (4+3) +
// 5*4 = 92 bytes.
const requestHead = 48 // bytes before the first length

// Append appends the request's frame to b.
func (r *Request) Append(b []byte) []byte {
	x := extras{r.Params, r.Principal.Own}
	b = append(b, Version, byte(x.count()))
	b = appendU16(b, uint16(len(r.Headers)+x.count()))
	b = appendU32(b, uint32(r.Principal.Scopes))
	b = appendI64(b, r.Now)
	b = append(b, r.Random[:]...)
	b = appendBytes(b, r.Method)
	b = appendBytes(b, r.Path)
	b = appendBytes(b, r.Query)
	b = appendBytes(b, r.Client)
	b = r.Principal.append(b)
	b = appendBytes(b, x.first())
	b = appendHeaders(b, r.Headers)
	b = x.append(b)
	return appendBytes(b, r.Body)
}

// Parse parses a frame into r and reuses the memory of r.Headers and r.Params. Strings and
// Body share the memory of b.
func (r *Request) Parse(b []byte) error {
	d := newReader(b)
	head := d.next(requestHead)
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
	r.Principal.parse(&d)
	first := d.str()
	if headers < int(head[1]) {
		return ErrFrame
	}
	r.Headers = d.headers(headers-int(head[1]), r.Headers)
	r.Params, r.Principal.Own = d.extras(int(head[1]), first, r.Params)
	r.Body = d.bytes()
	return d.end()
}

// Header returns the last value of the header name (lower case), "" if there is
// none, and the number of values.
func (r *Request) Header(name string) (value string, count int) {
	for _, h := range r.Headers {
		if h.Name == name {
			value = h.Value
			count++
		}
	}
	return value, count
}

// Param returns the value of the parameter name of the route's path, "" if the route
// has none of that name.
func (r *Request) Param(name string) string {
	for _, p := range r.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Response is the response of a guest. A gate that passes the request on sets
// Handler and Principal instead of Status and Body; its Headers are then added
// to the handler's response.
type Response struct {
	Status    int
	Headers   []Header
	Body      []byte
	Handler   string // the module to pass the request to; "" if this is the answer
	Principal Principal
	Params    []Param // of the route's path

	buf []byte // memory of ParseCopy and Decimal
}

// Response frame:
//
//	offset size
//	0      1    Version
//	1      1    number of extras, as in a request
//	2      2    number of headers, with the extras
//	4      2    status, 0 if the request is passed on
//	6      2    reserved, 0
//	8      4    scopes
//	12          bytes: handler, key id, account id, environment, first;
//	            name and value of each header, then of each extra; body
const responseHead = 12 // bytes before the first length

// Append appends the response's frame to b.
func (r *Response) Append(b []byte) []byte {
	x := extras{r.Params, r.Principal.Own}
	b = append(b, Version, byte(x.count()))
	b = appendU16(b, uint16(len(r.Headers)+x.count()))
	b = appendU16(b, uint16(r.Status))
	b = append(b, 0, 0)
	b = appendU32(b, uint32(r.Principal.Scopes))
	b = appendBytes(b, r.Handler)
	b = r.Principal.append(b)
	b = appendBytes(b, x.first())
	b = appendHeaders(b, r.Headers)
	b = x.append(b)
	return appendBytes(b, r.Body)
}

// Parse parses a frame into r and reuses the memory of r.Headers and r.Params. Strings and
// Body share the memory of b.
func (r *Response) Parse(b []byte) error {
	d := newReader(b)
	head := d.next(responseHead)
	if head == nil || head[0] != Version {
		return ErrFrame
	}
	headers := int(u16(head[2:]))
	r.Status = int(u16(head[4:]))
	r.Principal.Scopes = Scopes(u32(head[8:]))
	r.Handler = d.str()
	r.Principal.parse(&d)
	first := d.str()
	if headers < int(head[1]) {
		return ErrFrame
	}
	r.Headers = d.headers(headers-int(head[1]), r.Headers)
	r.Params, r.Principal.Own = d.extras(int(head[1]), first, r.Params)
	r.Body = d.bytes()
	return d.end()
}

// ParseCopy parses a copy of a frame that r keeps, so that r stays valid until
// the next ParseCopy whatever happens to b.
func (r *Response) ParseCopy(b []byte) error {
	r.buf = append(r.buf[:0], b...)
	return r.Parse(r.buf)
}

// Decimal formats n in memory of r. The text is valid until the next Reset or
// ParseCopy.
func (r *Response) Decimal(n int64) string {
	const longest = 20 // digits and the sign
	if cap(r.buf)-len(r.buf) < longest {
		// Enough for all numbers of one response at the first of them: a guest keeps
		// the memory of its warm-up, and the numbers of that may have been short.
		r.buf = slices.Grow(r.buf, 8*longest)
	}
	at := len(r.buf)
	r.buf = strconv.AppendInt(r.buf, n, 10)
	return unsafe.String(&r.buf[at], len(r.buf)-at)
}

// Reset empties r and keeps its memory.
func (r *Response) Reset() {
	*r = Response{Headers: r.Headers[:0], Params: r.Params[:0], buf: r.buf[:0]}
}
