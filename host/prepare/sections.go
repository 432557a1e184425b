package prepare

import (
	"fmt"
	"strings"
)

// maxValues bounds the parameters and results of a type, which a function's calls and a
// block's branches carry at no fuel: a loop's iteration moves them all for 4 of it.
const maxValues = 64

// typeSection reads the types; writeTypes writes them.
func (p *rewriter) typeSection(r *reader) (out []byte) {
	for range r.count() {
		at := r.at
		if form := r.byte(); form != 0x60 {
			r.fail(at, "type of form %#x is not supported", form)
		}
		t := signature{valueTypes(r), valueTypes(r)}
		if n := len(t.params) + len(t.results); n > maxValues {
			r.fail(at, "type of %d parameters and results, more than %d, is not supported", n, maxValues)
		}
		if !r.ok() {
			return out
		}
		p.types = append(p.types, t)
	}
	return out
}

func valueTypes(r *reader) string {
	n := r.count()
	start := r.at
	for range n {
		valueType(r)
	}
	if !r.ok() {
		return ""
	}
	return string(r.b[start:r.at])
}

// newType adds a type and returns its index.
func (p *rewriter) newType(t signature) uint32 {
	p.newTypes = append(p.newTypes, t)
	return uint32(len(p.types) + len(p.newTypes) - 1)
}

func (p *rewriter) writeTypes() []byte {
	out := appendU32(nil, uint32(len(p.types)+len(p.newTypes)))
	for _, types := range [][]signature{p.types, p.newTypes} {
		for _, t := range types {
			out = appendName(appendName(append(out, 0x60), t.params), t.results)
		}
	}
	return out
}

// importSection reads the imports, and appends those of the rewrite to them: the function
// that gives fuel, and the one that grows memory if the options say so.
func (p *rewriter) importSection(r *reader) (out []byte) {
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
			refType(r)
			limits(r)
			p.tables++
		case KindMemory:
			memoryLimits(r)
			p.memories++
			p.importsMemory = true
		case KindGlobal:
			kind := valueType(r)
			p.globals = append(p.globals, global{kind, mutable(r), true})
		default:
			r.fail(at, "import of kind %#x is not supported", byte(im.Kind))
		}
		if im.Module == ImportModule && (im.Name == ImportFuel || im.Name == ImportGrow) {
			r.fail(at, "import %s.%s is reserved", im.Module, im.Name)
		}
		if !r.ok() {
			return out
		}
		p.module.Imports = append(p.module.Imports, im)
	}
	p.functions = p.imported
	if p.added = 1; p.options.ImportGrow {
		p.added = 2
	}
	out = appendU32(nil, uint32(n)+p.added)
	out = append(out, r.b[body:r.at]...)
	add := func(name string, t signature) {
		out = appendName(appendName(out, ImportModule), name)
		out = appendU32(append(out, byte(KindFunction)), p.newType(t))
	}
	p.tick, p.grow = uint32(p.imported), uint32(p.imported)+1
	add(ImportFuel, signature{results: "\x7f"})
	if p.options.ImportGrow {
		add(ImportGrow, signature{params: "\x7f", results: "\x7f"})
	}
	return out
}

func mutable(r *reader) bool { return r.oneOf("mutability", 0, 1) == 1 }

// limits reads the limits of a table or a memory; high is 1<<32 where there is none.
func limits(r *reader) (low uint32, high uint64) {
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

const maxPages = 1 << 16 // of any memory

func memoryLimits(r *reader) (low uint32, high uint64) {
	at := r.at
	low, high = limits(r)
	if low > maxPages || high > maxPages && high != 1<<32 {
		r.fail(at, "memory of %d to %d pages, more than there can be", low, high)
	}
	return low, high
}

// functionSection reads the functions' types; writeFunctions writes them.
func (p *rewriter) functionSection(r *reader) (out []byte) {
	n := r.count()
	for range n {
		p.typeOf = append(p.typeOf, r.index("type", len(p.types)))
	}
	p.functions += n
	return out
}

func (p *rewriter) writeFunctions() []byte {
	out := appendU32(nil, uint32(p.functions-p.imported+len(p.bodies)))
	for _, t := range p.typeOf[p.imported:] {
		out = appendU32(out, t)
	}
	for _, t := range p.typesOf {
		out = appendU32(out, t)
	}
	return out
}

const (
	tableLimit    = 1 << 16   // elements that a table may grow to
	maxTableStart = 1_000_000 // and all may start with
	maxTables     = 16
)

func (p *rewriter) tableSection(r *reader) (out []byte) {
	n := r.count()
	out = appendU32(nil, uint32(n))
	for range n {
		kind := refType(r)
		at := r.at
		low, high := limits(r)
		p.tables++
		p.tableStart += uint64(low)
		if p.tableStart > maxTableStart {
			r.fail(at, "tables of %d elements, more than the limit of %d", p.tableStart, maxTableStart)
		}
		if p.tables > maxTables {
			r.fail(at, "more than %d tables", maxTables)
		}
		if !r.ok() {
			return out
		}
		out = appendU32(append(out, kind, 1), low)
		out = appendU32(out, uint32(min(high, uint64(max(tableLimit, low)))))
		if p.tables == 1 && n == 1 && kind == funcref {
			p.calls.setTable(low)
		}
	}
	return out
}

func (p *rewriter) memorySection(r *reader) (out []byte) {
	at := r.at
	n := r.count()
	if p.memories += n; p.memories > 1 {
		r.fail(at, "a second memory (multi-memory) is not supported")
	}
	if n == 0 || !r.ok() {
		return nil
	}
	low, high := memoryLimits(r)
	p.module.Pages, p.module.MaxPages = low, uint32(min(high, maxPages))
	return appendU32(appendU32([]byte{1, 1}, p.module.Pages), p.module.MaxPages)
}

// maxGlobals bounds a module's globals. Each sandbox holds them outside its memory, and
// the host reads them after each call. Compilers make some ten.
const maxGlobals = 1000

func (p *rewriter) globalSection(r *reader) (out []byte) {
	at := r.at
	n := r.count()
	if len(p.globals)+n > maxGlobals {
		r.fail(at, "%d globals, more than the limit of %d", len(p.globals)+n, maxGlobals)
	}
	out = appendU32(nil, uint32(n)+2)
	for range n {
		start := r.at
		g := global{valueType(r), mutable(r), false}
		p.globals = append(p.globals, g)
		out = append(out, r.b[start:r.at]...)
		out = p.constant(r, out)
		if !r.ok() {
			return out
		}
		if g.mutable && g.numeric() {
			p.module.Globals = append(p.module.Globals, fmt.Sprint(globalPrefix, len(p.globals)-1))
		}
	}
	p.fuel, p.state = uint32(len(p.globals)), uint32(len(p.globals))+1
	return append(out,
		i32, 1, opI32Const, 0, opEnd,
		i64, 1, opI64Const, 0, opEnd)
}

// constant rewrites a constant expression and appends it to out.
func (p *rewriter) constant(r *reader, out []byte) []byte {
	for r.ok() {
		start := r.at
		op := r.byte()
		switch op {
		case opEnd:
			return append(out, op)
		case opGlobalGet:
			r.index("global", len(p.globals))
		case opI32Const:
			r.skipLEB(5)
		case opI64Const:
			r.skipLEB(10)
		case opF32Const:
			r.bytes(4)
		case opF64Const:
			r.bytes(8)
		case opRefNull:
			refType(r)
		case opRefFunc:
			out = appendU32(append(out, op), p.moved(r.index("function", p.functions)))
			continue
		case opSIMD:
			if r.u32() != simdConst {
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

// exportSection rewrites the exports, and appends those of the rewrite to them: the mutable
// numeric globals, the fuel, the count of changes, the memory, and the start function.
func (p *rewriter) exportSection(r *reader) (out []byte) {
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
			i = p.tableIndex(r)
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
			add(fmt.Sprint(globalPrefix, i), KindGlobal, uint32(i))
		}
	}
	add(ExportFuel, KindGlobal, p.fuel)
	add(ExportState, KindGlobal, p.state)
	if p.memories > 0 {
		add(ExportMemory, KindMemory, 0)
	}
	if s := p.sections[secStart]; s != nil {
		start := *s
		add(ExportStart, KindFunction, p.moved(start.index("function", p.functions)))
	}
	return append(appendU32(out, uint32(n)), list...)
}

// startSection checks the section, which is dropped.
func (p *rewriter) startSection(r *reader) []byte {
	at := r.at
	if i := r.index("function", p.functions); r.ok() && p.types[p.typeOf[i]] != (signature{}) {
		r.fail(at, "start function takes or gives something")
	}
	return nil
}

func (p *rewriter) codeSection(r *reader) (out []byte) {
	start, fixed := *r, p.calls.fixed
	if !p.options.WithoutFuel {
		p.addRefuel()
	}
	at := r.at
	n := r.count()
	if n != p.functions-p.imported {
		r.fail(at, "code of %d functions, %d declared", n, p.functions-p.imported)
		return out
	}
	out = make([]byte, 0, len(r.b)-r.at+(len(r.b)-r.at)/4)
	var body []byte
	for i := range n {
		s := r.functionCode(i)
		if !r.ok() {
			return out
		}
		body = p.functionDirect(s, body[:0], len(p.types[p.typeOf[p.imported+i]].params))
		if s.err != nil {
			r.err = s.err
			return out
		}
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	if fixed && !p.calls.fixed { // the code turned out to need the table: once more, with it
		*r, p.newTypes, p.newFunctions = start, p.newTypes[:p.added], newFunctions{}
		p.calls, p.bulks = indirectCalls{}, nil
		return p.codeSection(r)
	}
	for _, body := range p.bodies {
		out = appendU32(out, uint32(len(body)))
		out = append(out, body...)
	}
	return append(appendU32(make([]byte, 0, len(out)+4), uint32(n+len(p.bodies))), out...)
}
