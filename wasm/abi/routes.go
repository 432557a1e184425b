package abi

// Route is one endpoint of a module, as its manifest declares it.
type Route struct {
	// Handler is the name of the module that answers. A manifest does not say it.
	Handler string `json:"-"`
	// Method is GET, POST, PUT, PATCH or DELETE.
	Method string `json:"method"`
	// Path is the whole path below /api/v2/public/. A segment {name} stands for any
	// segment that is not empty, and is handed to the module under its name,
	// percent-decoded: /api/v2/public/webhooks/{id}. Package route has the rules.
	Path string `json:"path"`
	// Scope is what a key must have: one of the contract's, or an own one (x:quotes).
	Scope string `json:"scope"`
}

// Routes are the endpoints of a release, the answer to OpRoutes.
//
//	u32 count; of each route, bytes: handler, method, path, scope
type Routes []Route

// Append appends the frame to b.
func (l Routes) Append(b []byte) []byte {
	b = appendU32(b, uint32(len(l)))
	for i := range l {
		b = appendBytes(b, l[i].Handler)
		b = appendBytes(b, l[i].Method)
		b = appendBytes(b, l[i].Path)
		b = appendBytes(b, l[i].Scope)
	}
	return b
}

// Parse parses a frame into l; strings share the memory of b.
func (l *Routes) Parse(b []byte) error {
	d := newReader(b)
	n := int(d.u32())
	*l = (*l)[:0]
	for i := 0; i < n && d.ok(); i++ {
		*l = append(*l, Route{Handler: d.str(), Method: d.str(), Path: d.str(), Scope: d.str()})
	}
	return d.end()
}
