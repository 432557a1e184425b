package abi

import (
	"math"
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
	if d.threeEmpty() {
		p.KeyID, p.AccountID, p.Environment = "", "", ""
		return
	}
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
	r.Headers = r.Headers[:0]
	if n := headers - int(head[1]); n > 0 {
		r.Headers = d.headers(n, r.Headers)
	}
	r.Params, r.Principal.Own = r.Params[:0], ""
	if head[1] > 0 || first != "" {
		r.Params, r.Principal.Own = d.extras(int(head[1]), first, r.Params)
	}
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
	Status    int // 200 to 599, which the handler must set
	Headers   []Header
	Body      []byte
	Handler   string // the module to pass the request to; "" if this is the answer
	Principal Principal
	Params    []Param // of the route's path

	// Hindered says that an operation which the guest called failed or was unavailable. The
	// host sets it: no frame has it.
	Hindered bool

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

// Append appends the response's frame to b. Room for all of it is made at once, for a
// guest answers each request by one frame.
func (r *Response) Append(b []byte) []byte {
	x := extras{r.Params, r.Principal.Own}
	size := responseHead + 6*4 + len(r.Handler) + len(r.Principal.KeyID) + len(r.Principal.AccountID) +
		len(r.Principal.Environment) + len(x.first()) + len(r.Body)
	for i := range r.Headers {
		size += 8 + len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	b, f := extend(b, size+x.size())
	putU32(f, Version|uint32(x.count())<<8|uint32(len(r.Headers)+x.count())<<16)
	putU32(f[4:], uint32(uint16(r.Status)))
	putU32(f[8:], uint32(r.Principal.Scopes))
	f = putBytes(f[responseHead:], r.Handler)
	if p := &r.Principal; p.KeyID == "" && p.AccountID == "" && p.Environment == "" {
		putU64(f, 0)
		putU32(f[8:], 0)
		f = f[12:]
	} else {
		f = putBytes(putBytes(putBytes(f, p.KeyID), p.AccountID), string(p.Environment))
	}
	f = putBytes(f, x.first())
	for i := range r.Headers {
		f = putBytes(putBytes(f, r.Headers[i].Name), r.Headers[i].Value)
	}
	if x.count() > 0 {
		f = x.put(f)
	}
	putBytes(f, unsafe.String(unsafe.SliceData(r.Body), len(r.Body)))
	return b
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
	r.Headers = r.Headers[:0]
	if n := headers - int(head[1]); n > 0 {
		r.Headers = d.headers(n, r.Headers)
	}
	r.Params, r.Principal.Own = r.Params[:0], ""
	if head[1] > 0 || first != "" {
		r.Params, r.Principal.Own = d.extras(int(head[1]), first, r.Params)
	}
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
	at := len(r.buf)
	if cap(r.buf)-at < longest {
		// Enough for all numbers of one response at the first of them: a guest keeps
		// the memory of its warm-up, and the numbers of that may have been short.
		r.buf = slices.Grow(r.buf, 8*longest)
	}
	if n < 0 || n > math.MaxUint32 {
		r.buf = strconv.AppendInt(r.buf, n, 10)
		return unsafe.String(&r.buf[at], len(r.buf)-at)
	}
	// In a guest, package strconv takes several times as long for a few digits.
	r.buf = r.buf[:at+longest]
	digits, first := (*[longest]byte)(r.buf[at:]), longest
	for rest := uint32(n); ; {
		first--
		digits[first] = byte('0' + rest%10)
		if rest /= 10; rest == 0 {
			return unsafe.String(&digits[first], longest-first)
		}
	}
}

// Use gives r memory to begin with: for headers, and for what Decimal formats.
func (r *Response) Use(headers []Header, digits []byte) { r.Headers, r.buf = headers, digits }

// Reset empties r and keeps its memory.
func (r *Response) Reset() {
	*r = Response{Headers: r.Headers[:0], Params: r.Params[:0], buf: r.buf[:0]}
}
