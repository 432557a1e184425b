// Package prepare rewrites a WebAssembly module so that a host can restore its
// state and interrupt it:
//
//   - Every mutable global of a numeric type is exported, so that the host can
//     read and set it. Changes of any other state that is not memory (tables,
//     dropped segments, globals of other types) are counted in a global.
//   - Code spends fuel for what it runs, and for the length of a bulk operation, which
//     runs in pieces. When the fuel is used up, the module calls the imported function
//     edge.tick, whose result is the fuel that it gets next.
//   - Copies and fills of a constant, short length become loads and stores.
//   - Jumps that go forward, which Go's compiler makes of a loop around the whole
//     function, become branches.
//   - Active data segments are removed, for the host to copy into memory. Passive
//     ones stay.
//   - Calls through a table that never changes become branches to direct calls.
//   - The start function is exported instead of run. The memory is exported.
//   - Memory and tables get a limit.
//   - Custom sections are dropped.
//
// What a module does is otherwise unchanged. The rewrite checks every opcode that
// it meets: it knows WebAssembly 2.0 with SIMD, and refuses others by name and
// offset. It does not check types: the engine does, on the result. A module cannot
// use what was added to it, since every index is checked against what the module
// itself has.
package prepare

import (
	"bytes"
	"crypto/sha256"
	"unicode/utf8"
)

// Imports that the rewrite adds. A module that imports them itself is refused.
const (
	ImportModule = "edge"
	ImportFuel   = "tick" // func() i32: called without fuel left, returns more
	ImportGrow   = "grow" // func(pages i32) i32: memory.grow, see Options.ImportGrow
)

// Exports that the rewrite adds. A module that exports a name which begins like
// them is refused.
const (
	reserved     = "edge."
	ExportFuel   = reserved + "fuel"   // i32 global: fuel left
	ExportState  = reserved + "state"  // i64 global: changes of state elsewhere
	ExportMemory = reserved + "memory" // the memory, if there is one
	ExportStart  = reserved + "start"  // function: what was the start function, if there was one
	globalPrefix = reserved + "global."
)

// PageSize is the unit of memory, in bytes.
const PageSize = 64 << 10

// Options of a rewrite.
type Options struct {
	// WithoutFuel leaves the fuel out. The module cannot be interrupted then, but by
	// its engine.
	WithoutFuel bool
	// ImportGrow makes memory.grow a call of edge.grow, for an engine that does not
	// ask the host before memory grows.
	ImportGrow bool
	// exactFuel charges for each instruction by itself, which costs much: for tests.
	exactFuel bool
}

// Module is a rewritten module.
type Module struct {
	Wasm     []byte            // nil in one from a Cache
	Sum      [sha256.Size]byte // of Wasm, in one from a Cache
	Pages    uint32            // of memory at the start
	MaxPages uint32            // that memory may grow to; 0 when there is no memory
	Imports  []Import          // the module's own; edge.tick and edge.grow are not among them
	Data     []Segment
	Globals  []string // the exports of its numeric mutable globals
}

// Import is something that a module needs.
type Import struct {
	Module, Name string
	Kind         Kind
}

// Kind is the kind of an import or export.
type Kind byte

// Kinds.
const (
	KindFunction Kind = iota
	KindTable
	KindMemory
	KindGlobal
)

func (k Kind) String() string {
	return [...]string{"function", "table", "memory", "global"}[k]
}

// Segment is bytes that belong into memory before anything runs.
type Segment struct {
	Offset uint32
	Bytes  []byte // a part of the module that was given
	at     int    // where that is in it
}

var header = []byte{0, 'a', 's', 'm', 1, 0, 0, 0}

// Sections of the binary format.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
	secTag
)

// order in which sections must come.
var order = [...]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6,
	secExport: 7, secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12}

// Rewrite rewrites a module. Its errors are of type *Error.
func Rewrite(wasm []byte, options Options) (*Module, error) {
	p := &rewriter{options: options, module: &Module{}}
	r := &reader{b: wasm}
	if !bytes.HasPrefix(wasm, header) {
		return nil, &Error{What: "it is not a WebAssembly module of version 1"}
	}
	r.at = len(header)
	p.split(r)
	p.rewrite(r)
	if r.err != nil {
		return nil, r.err
	}
	p.module.Wasm = p.join()
	return p.module, nil
}

// rewriter is a rewrite under way.
type rewriter struct {
	options  Options
	module   *Module
	sections [13]*reader
	contents [13][]byte // of the sections, rewritten

	types         []signature
	newTypes      []signature // of the functions that are added
	typeOf        []uint32    // of each function, the imported ones first
	imported      int         // functions
	functions     int         // with the imported ones
	tables        int
	tableStart    uint64 // elements of all tables at first
	memories      int
	importsMemory bool
	globals       []global
	elements      int
	dataCount     int
	usesData      bool // memory.init or data.drop occurs

	tick, grow  uint32 // functions that are imported besides the module's own
	added       uint32 // how many they are
	fuel, state uint32 // globals
	refuel      uint32 // a function that is added
	newFunctions
	calls indirectCalls
	bulks map[bulk]uint32 // the functions that were added for them

	moduleWords int // of short bulk operations, up to now

	// Room for the code of one function after another.
	frames  []frame
	regions []region
	jumps   []jump
}

// newFunctions are functions that are added behind the module's own.
type newFunctions struct {
	typesOf []uint32
	bodies  [][]byte
}

// addFunction adds a function and returns its index.
func (p *rewriter) addFunction(of signature, body []byte) uint32 {
	p.typesOf = append(p.typesOf, p.newType(of))
	p.bodies = append(p.bodies, body)
	return uint32(p.functions) + p.added + uint32(len(p.bodies)) - 1
}

// signature is a function's type: its value types, one a byte.
type signature struct{ params, results string }

type global struct {
	kind     byte
	mutable  bool
	imported bool
}

// Value types.
const (
	i32       = 0x7f
	i64       = 0x7e
	f32       = 0x7d
	f64       = 0x7c
	v128      = 0x7b
	funcref   = 0x70
	externref = 0x6f
)

func (g global) numeric() bool { return g.kind >= f64 && g.kind <= i32 }

// moved returns a function's new index: those added come behind the imported ones.
func (p *rewriter) moved(i uint32) uint32 {
	if int(i) >= p.imported {
		i += p.added
	}
	return i
}

func valueType(r *reader) byte {
	return r.oneOf("value type", i32, i64, f32, f64, v128, funcref, externref)
}

func refType(r *reader) byte { return r.oneOf("reference type", funcref, externref) }

// split finds the sections.
func (p *rewriter) split(r *reader) {
	last := 0
	for !r.end() {
		at := r.at
		id := r.byte()
		content := r.sub(int(r.u32()))
		switch {
		case !r.ok():
		case id == secCustom:
			if name := content.name(); content.ok() && !utf8.ValidString(name) {
				content.fail(at, "custom section's name is not UTF-8")
			}
			r.err = content.err
		case id == secTag:
			r.fail(at, "tag section (exception handling) is not supported")
		case int(id) >= len(order):
			r.fail(at, "section %d is not known", id)
		case order[id] <= last:
			r.fail(at, "section %d comes twice, or too late", id)
		default:
			last = order[id]
			p.sections[id] = content
		}
	}
}

// section runs f over a section, which must be read to its end, and keeps what
// f returns. Without the section f is not run.
func (p *rewriter) section(r *reader, id byte, f func(r *reader) []byte) {
	if p.sections[id] == nil || !r.ok() {
		return
	}
	s := *p.sections[id]
	p.contents[id] = f(&s)
	if s.ok() && s.at != len(s.b) {
		s.fail(s.at, "section %d is longer than what it holds", id)
	}
	r.err = s.err
}

// rewrite rewrites every section.
func (p *rewriter) rewrite(r *reader) {
	for _, id := range [...]byte{secType, secImport, secFunction, secGlobal, secExport} {
		if p.sections[id] == nil {
			p.sections[id] = &reader{b: []byte{0}}
		}
	}
	p.section(r, secType, p.typeSection)
	p.section(r, secImport, p.importSection)
	p.section(r, secFunction, p.functionSection)
	p.section(r, secTable, p.tableSection)
	p.section(r, secMemory, p.memorySection)
	p.section(r, secGlobal, p.globalSection)
	p.section(r, secExport, p.exportSection)
	p.section(r, secStart, p.startSection)
	p.section(r, secElement, p.elementSection)
	p.countData(r)
	p.section(r, secCode, p.codeSection)
	if p.functions > p.imported && p.sections[secCode] == nil {
		r.fail(r.at, "functions have no code")
	}
	p.section(r, secData, p.dataSection)
	if p.usesData {
		p.contents[secDataCount] = appendU32(nil, uint32(p.dataCount))
	}
}

// join puts the sections together. Types and functions are written last, for more
// are added while code is rewritten.
func (p *rewriter) join() []byte {
	p.contents[secType] = p.writeTypes()
	p.contents[secFunction] = p.writeFunctions()
	if p.calls.fixed {
		p.contents[secTable], p.contents[secElement] = noTable, nil
	}
	size := len(header)
	for _, content := range p.contents {
		size += len(content) + 8
	}
	out := append(make([]byte, 0, size), header...)
	for _, id := range [...]byte{secType, secImport, secFunction, secTable, secMemory, secGlobal,
		secExport, secElement, secDataCount, secCode, secData} {
		if content := p.contents[id]; len(content) > 0 {
			out = append(appendU32(append(out, id), uint32(len(content))), content...)
		}
	}
	return out
}
