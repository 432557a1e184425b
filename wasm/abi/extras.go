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

func (x extras) append(b []byte) []byte {
	for _, p := range x.params {
		var name []byte
		b, name = extend(b, 4+len(p.Name)+2)
		putU32(name, uint32(len(p.Name)+2))
		name[4] = '{'
		copy(name[5:], p.Name)
		name[len(name)-1] = '}'
		b = appendBytes(b, p.Value)
	}
	if x.own != "" {
		b = appendBytes(b, ownName)
		b = appendBytes(b, x.own)
	}
	return b
}

// extras reads n extras, the parameters into the memory of into. Without any, first is
// the value of a parameter that has no name: so a gate writes that knows of one only.
func (r *reader) extras(n int, first string, into []Param) (params []Param, own string) {
	params = into[:0]
	for i := 0; i < n && r.ok; i++ {
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
