package prepare

import (
	"fmt"
	"strings"
)

// typeSection reads the types; writeTypes writes them.
func (p *preparer) typeSection(r *reader, out []byte) []byte {
	for range r.count() {
		at := r.at
		if form := r.byte(); form != 0x60 {
			r.fail(at, "type of form %#x is not supported", form)
		}
		t := signature{p.valueTypes(r), p.valueTypes(r)}
		if !r.ok() {
			return out
		}
		p.types = append(p.types, t)
	}
	return out
}

func (p *preparer) valueTypes(r *reader) string {
	n := r.count()
	start := r.at
	for range n {
		p.valueType(r)
	}
	if !r.ok() {
		return ""
	}
	return string(r.b[start:r.at])
}

// newType is the index of a type that is added.
func (p *preparer) newType(t signature) uint32 {
	p.newTypes = append(p.newTypes, t)
	return uint32(len(p.types) + len(p.newTypes) - 1)
}

func (p *preparer) writeTypes() []byte {
	out := appendU32(nil, uint32(len(p.types)+len(p.newTypes)))
	for _, types := range [][]signature{p.types, p.newTypes} {
		for _, t := range types {
			out = appendName(appendName(append(out, 0x60), t.params), t.results)
		}
	}
	return out
}

func (p *preparer) importSection(r *reader, out []byte) []byte {
	n := r.count()
	body := r.at
	for range n {
		im := Import{Module: r.name(), Name: r.name()}
		at := r.at
		im.Kind = Kind(r.byte())
		switch im.Kind {
		case KindFunction:
			p.typeOf = append(p.typeOf, r.index("type", len(p.types)))
			p.imported++
		case KindTable:
			p.refType(r)
			p.limits(r)
			p.tables++
		case KindMemory:
			p.memoryLimits(r)
			p.memories++
			p.importsMemory = true
		case KindGlobal:
			kind := p.valueType(r)
			p.globals = append(p.globals, global{kind, p.mutable(r), true})
		default:
			r.fail(at, "import of kind %#x is not supported", byte(im.Kind))
		}
		if im.Module == TickModule && (im.Name == TickName || im.Name == GrowName) {
			r.fail(at, "import %s.%s is reserved", im.Module, im.Name)
		}
		if !r.ok() {
			return out
		}
		p.module.Imports = append(p.module.Imports, im)
	}
	p.functions = p.imported
	if p.added = 1; p.options.AskToGrow {
		p.added = 2
	}
	out = appendU32(out, uint32(n)+p.added)
	out = append(out, r.b[body:r.at]...)
	add := func(name string, t signature) {
		out = appendName(appendName(out, TickModule), name)
		out = appendU32(append(out, byte(KindFunction)), p.newType(t))
	}
	p.tick, p.grow = uint32(p.imported), uint32(p.imported)+1
	add(TickName, signature{results: "\x7f"})
	if p.options.AskToGrow {
		add(GrowName, signature{params: "\x7f", results: "\x7f"})
	}
	return out
}

func (p *preparer) mutable(r *reader) bool {
	at := r.at
	switch b := r.byte(); b {
	case 0, 1:
		return b == 1
	default:
		r.fail(at, "mutability %#x is not known", b)
		return false
	}
}

// limits are those of a table or a memory; max is 1<<32 where there is none.
func (p *preparer) limits(r *reader) (low uint32, high uint64) {
	at := r.at
	flag := r.byte()
	if flag > 1 {
		r.fail(at, "limits of kind %#x (shared or 64-bit memory) are not supported", flag)
		return 0, 0
	}
	low, high = r.u32(), 1<<32
	if flag == 1 {
		high = uint64(r.u32())
	}
	if r.ok() && uint64(low) > high {
		r.fail(at, "limits of at least %d and at most %d", low, high)
	}
	return low, high
}

const mostPages = 1 << 16

func (p *preparer) memoryLimits(r *reader) (low uint32, high uint64) {
	at := r.at
	low, high = p.limits(r)
	if low > mostPages || high > mostPages && high != 1<<32 {
		r.fail(at, "memory of %d to %d pages, more than there can be", low, high)
	}
	return low, high
}

// functionSection reads the functions' types; writeFunctions writes them.
func (p *preparer) functionSection(r *reader, out []byte) []byte {
	n := r.count()
	for range n {
		p.typeOf = append(p.typeOf, r.index("type", len(p.types)))
	}
	p.functions += n
	return out
}

func (p *preparer) writeFunctions() []byte {
	out := appendU32(nil, uint32(p.functions-p.imported+len(p.calls.bodies)))
	for _, t := range p.typeOf[p.imported:] {
		out = appendU32(out, t)
	}
	for _, t := range p.calls.types {
		out = appendU32(out, t)
	}
	return out
}

const (
	tableLimit = 1 << 16
	tableMost  = 1_000_000
)

func (p *preparer) tableSection(r *reader, out []byte) []byte {
	n := r.count()
	out = appendU32(out, uint32(n))
	for range n {
		kind := p.refType(r)
		out = append(out, kind)
		at := r.at
		low, high := p.limits(r)
		limit := p.options.MaxTable
		if limit == 0 {
			limit = max(tableLimit, min(low, tableMost))
		}
		if low > limit {
			r.fail(at, "table of %d elements, more than the limit of %d", low, limit)
		}
		if !r.ok() {
			return out
		}
		out = appendU32(append(out, 1), low)
		out = appendU32(out, uint32(min(high, uint64(limit))))
		if p.tables == 0 && n == 1 && kind == funcref {
			p.calls.table(low)
		}
	}
	p.tables += n
	return out
}

func (p *preparer) memorySection(r *reader, out []byte) []byte {
	at := r.at
	n := r.count()
	if p.memories += n; p.memories > 1 {
		r.fail(at, "a second memory (multi-memory) is not supported")
	}
	if n == 0 || !r.ok() {
		return out
	}
	low, high := p.memoryLimits(r)
	limit := p.options.MaxPages
	if limit == 0 {
		limit = mostPages
	}
	if p.options.Pages != 0 {
		if p.options.Pages < low || uint64(p.options.Pages) > high {
			r.fail(at, "memory of %d to %d pages cannot start with %d", low, high, p.options.Pages)
		}
		low = p.options.Pages
	}
	if low > limit {
		r.fail(at, "memory of %d pages, more than the limit of %d", low, limit)
	}
	p.module.Pages, p.module.MaxPages = low, uint32(min(high, uint64(limit)))
	out = appendU32([]byte{1, 1}, p.module.Pages)
	return appendU32(out, p.module.MaxPages)
}

func (p *preparer) globalSection(r *reader, out []byte) []byte {
	n := r.count()
	out = appendU32(out, uint32(n)+2)
	for range n {
		start := r.at
		g := global{p.valueType(r), p.mutable(r), false}
		p.globals = append(p.globals, g)
		kind := r.at
		init := p.constant(r, nil)
		if !r.ok() {
			return out
		}
		out = append(out, r.b[start:kind]...)
		if g.mutable && g.numeric() {
			if i := len(p.module.Globals); i < len(p.options.Globals) {
				init = startValue(g.kind, p.options.Globals[i])
			}
			p.module.Globals = append(p.module.Globals,
				Global{fmt.Sprint(globalName, len(p.globals)-1), g.kind})
		}
		out = append(out, init...)
	}
	p.fuel, p.state = uint32(len(p.globals)), uint32(len(p.globals))+1
	out = append(append(out, i32, 1), startValue(i32, 0)...)
	return append(append(out, i64, 1), startValue(i64, 0)...)
}

// constant rewrites a constant expression.
func (p *preparer) constant(r *reader, out []byte) []byte {
	for r.ok() {
		start := r.at
		op := r.byte()
		switch op {
		case 0x0b:
			return append(out, op)
		case 0x23:
			r.index("global", len(p.globals))
		case 0x41:
			r.skipLEB(5)
		case 0x42:
			r.skipLEB(10)
		case 0x43:
			r.bytes(4)
		case 0x44:
			r.bytes(8)
		case 0xd0:
			p.refType(r)
		case 0xd2:
			out = appendU32(append(out, op), p.moved(r.index("function", p.functions)))
			continue
		case 0xfd:
			if r.u32() != 0x0c {
				r.fail(start, "constant expression is not supported")
			}
			r.bytes(16)
		default:
			r.fail(start, "opcode %#x in a constant expression is not supported", op)
		}
		if r.ok() {
			out = append(out, r.b[start:r.at]...)
		}
	}
	return out
}

func (p *preparer) exportSection(r *reader, out []byte) []byte {
	n := r.count()
	var list []byte
	for range n {
		at := r.at
		name := r.name()
		if strings.HasPrefix(name, reserved) {
			r.fail(at, "export name %q is reserved", name)
		}
		kind := r.byte()
		var i uint32
		switch Kind(kind) {
		case KindFunction:
			i = p.moved(r.index("function", p.functions))
		case KindTable:
			i = p.table(r)
		case KindMemory:
			i = r.index("memory", p.memories)
		case KindGlobal:
			i = r.index("global", len(p.globals))
		default:
			r.fail(at, "export of kind %#x is not supported", kind)
		}
		if !r.ok() {
			return out
		}
		list = appendU32(append(appendName(list, name), kind), i)
	}
	add := func(name string, kind Kind, i uint32) {
		list = appendU32(append(appendName(list, name), byte(kind)), i)
		n++
	}
	for i, g := range p.globals {
		if g.mutable && g.numeric() && !g.imported {
			add(fmt.Sprint(globalName, i), KindGlobal, uint32(i))
		}
	}
	add(Fuel, KindGlobal, p.fuel)
	add(State, KindGlobal, p.state)
	if p.memories > 0 {
		add(Memory, KindMemory, 0)
	}
	if s := p.sections[secStart]; s != nil {
		start := *s
		add(Start, KindFunction, p.moved(start.index("function", p.functions)))
	}
	return append(appendU32(out, uint32(n)), list...)
}

// startSection checks the section, which is left out.
func (p *preparer) startSection(r *reader, out []byte) []byte {
	at := r.at
	if i := r.index("function", p.functions); r.ok() && p.types[p.typeOf[i]] != (signature{}) {
		r.fail(at, "start function takes or gives something")
	}
	p.module.HasStart = true
	return out
}

func (p *preparer) codeSection(r *reader, out []byte) []byte {
	start, fixed := *r, p.calls.fixed
	at := r.at
	n := r.count()
	if n != p.functions-p.imported {
		r.fail(at, "code of %d functions, %d declared", n, p.functions-p.imported)
		return out
	}
	out = make([]byte, 0, len(r.b)-r.at+(len(r.b)-r.at)/4)
	var body []byte
	for i := range n {
		s := r.sub(int(r.u32()))
		if !r.ok() {
			return out
		}
		body = p.body(s, body[:0], len(p.types[p.typeOf[p.imported+i]].params))
		if s.err != nil {
			r.err = s.err
			return out
		}
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	if fixed && !p.calls.fixed { // as it turned out on the way
		*r, p.newTypes, p.calls = start, p.newTypes[:p.added], indirectCalls{}
		return p.codeSection(r, nil)
	}
	for _, body := range p.calls.bodies {
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	return append(appendU32(make([]byte, 0, len(out)+4), uint32(n+len(p.calls.bodies))), out...)
}
