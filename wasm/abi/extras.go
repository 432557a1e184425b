package abi

// ownName is the name of the extra with a principal's own scopes.
const ownName = ":scopes"

// extras follow the headers in a frame.
type extras struct {
	params []Param
	own    string
}

func (x extras) count() int {
	if x.own == "" {
		return len(x.params)
	}
	return len(x.params) + 1
}

// first returns the value of the first parameter, "" without any.
func (x extras) first() string {
	if len(x.params) == 0 {
		return ""
	}
	return x.params[0].Value
}

// size returns how many bytes they have in a frame.
func (x extras) size() (n int) {
	for i := range x.params {
		n += 4 + 2 + len(x.params[i].Name) + 4 + len(x.params[i].Value)
	}
	if x.own != "" {
		n += 4 + len(ownName) + 4 + len(x.own)
	}
	return n
}

// put writes them to the start of b, and returns the rest of b.
func (x extras) put(b []byte) []byte {
	for i := range x.params {
		p := &x.params[i]
		n := len(p.Name) + 2
		putU32(b, uint32(n))
		b[4], b[3+n] = '{', '}'
		copy(b[5:], p.Name)
		b = putBytes(b[4+n:], p.Value)
	}
	if x.own != "" {
		b = putBytes(putBytes(b, ownName), x.own)
	}
	return b
}

func (x extras) append(b []byte) []byte {
	b, added := extend(b, x.size())
	x.put(added)
	return b
}

// extras reads n extras, the parameters into the memory of into. Without any, first is
// the value of a parameter that has no name: so a gate writes that knows of one only.
func (r *reader) extras(n int, first string, into []Param) (params []Param, own string) {
	params = into[:0]
	for i := 0; i < n && r.ok(); i++ {
		name, value := r.str(), r.str()
		switch {
		case name == ownName:
			own = value
		case len(name) >= 2 && name[0] == '{' && name[len(name)-1] == '}':
			params = append(params, Param{name[1 : len(name)-1], value})
		default:
			r.fail()
		}
	}
	if n == 0 && first != "" {
		params = append(params, Param{Value: first})
	}
	return params, own
}
