package prepare

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"partneredge/host/wasmtest"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// FuzzSame makes a module of its input and holds that the rewritten one computes the
// same as the module itself, and spends no less fuel than one that is charged for
// each instruction by itself.
func FuzzSame(f *testing.F) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 17))
		input := make([]byte, 40+r.IntN(3000))
		for i := range input {
			input[i] = byte(r.Uint32())
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		wasm := generate(input)
		want, _ := runGenerated(t, wasm)
		rewritten := func(options Options) (spent int64) {
			m, err := Rewrite(wasm, options)
			if err != nil {
				t.Fatal(err)
			}
			got, spent := runGenerated(t, m.Wasm)
			if got != want {
				t.Errorf("with %+v:\n%s\nwant\n%s", options, got, want)
			}
			return spent
		}
		rewritten(Options{WithoutFuel: true})
		if spent, least := rewritten(Options{}), rewritten(Options{exactFuel: true}); spent < least {
			t.Errorf("%d of fuel spent on instructions that cost %d", spent, least)
		}
	})
}

// runGenerated calls each function of a module and describes all that comes of it, and
// the fuel that it spent if it was rewritten.
func runGenerated(t *testing.T, wasm []byte) (outcome string, spent int64) {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer r.Close(ctx)
	var fuel api.Global
	const grant = 1000
	tick := func() int32 {
		spent += grant - int64(int32(fuel.Get()))
		return grant
	}
	if _, err := r.NewHostModuleBuilder(ImportModule).NewFunctionBuilder().WithFunc(tick).Export(ImportFuel).Instantiate(ctx); err != nil {
		t.Fatal(err)
	}
	instance, err := r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	if fuel = instance.ExportedGlobal(ExportFuel); fuel != nil {
		fuel.(api.MutableGlobal).Set(grant)
	}
	var out strings.Builder
	for i := range generatedFunctions {
		result, err := instance.ExportedFunction(fmt.Sprint("f", i)).Call(ctx, uint64(i))
		memory, _ := instance.Memory().Read(0, instance.Memory().Size())
		fmt.Fprintf(&out, "f%d: %v, trap %t, memory %d bytes %x, globals", i, result, err != nil, len(memory), crc32.ChecksumIEEE(memory))
		for g := range generatedGlobals {
			fmt.Fprintf(&out, " %d", instance.ExportedGlobal(fmt.Sprint("g", g)).Get())
		}
		out.WriteByte('\n')
	}
	if fuel != nil {
		spent += grant - int64(int32(fuel.Get()))
	}
	return out.String(), spent
}

const (
	generatedFunctions = 4 // of type i32 -> i32, the elements of a table
	generatedGlobals   = 3 // the last of them counts steps
	generatedLocals    = 4
	generatedNumbers   = 4 // locals that no expression reads
	generatedSteps     = 400
	generatedSegment   = 100_000 // bytes of a passive data segment
)

// generator makes code of an input. Each statement leaves nothing on the stack.
type generator struct {
	input  []byte
	blocks int // that are open
	size   int // statements
	loop   generatedLoop
	// numbers counts loops in which a local holds the number of the block that runs next.
	numbers int
}

// generatedLoop is the innermost loop of that kind.
type generatedLoop struct {
	local byte
	at    int // blocks around it
	count int // of its blocks; 0: there is no such loop
}

func (g *generator) next(n int) int {
	if len(g.input) == 0 {
		return 0
	}
	b := int(g.input[0])
	g.input = g.input[1:]
	return b % n
}

// generate returns a valid module.
func generate(input []byte) []byte {
	g := &generator{input: input}
	var types, codes, exports, globals, elements [][]byte
	for i := range generatedFunctions {
		codes = append(codes, wasmtest.Function([]byte{1, generatedLocals - 1 + generatedNumbers, i32}, g.step(), g.body(), g.expression(0)))
		types = append(types, []byte{0})
		elements = append(elements, []byte{byte(i)})
		exports = append(exports, wasmtest.Export(fmt.Sprint("f", i), byte(KindFunction), byte(i)))
	}
	for i := range generatedGlobals {
		globals = append(globals, []byte{i32, 1, opI32Const, byte(i), opEnd})
		exports = append(exports, wasmtest.Export(fmt.Sprint("g", i), byte(KindGlobal), byte(i)))
	}
	exports = append(exports, wasmtest.Export("memory", byte(KindMemory), 0))
	data := make([]byte, generatedSegment)
	for i := range data {
		data[i] = byte(i * 7 >> (i & 3))
	}
	return wasmtest.Module(
		wasmtest.Section(secType, []byte{0x60, 1, i32, 1, i32}),
		wasmtest.Section(secFunction, types...),
		wasmtest.Section(secTable, []byte{funcref, 0, generatedFunctions + 2}),
		wasmtest.Section(secMemory, []byte{1, 4, 6}),
		wasmtest.Section(secGlobal, globals...),
		wasmtest.Section(secExport, exports...),
		wasmtest.Section(secElement, slices.Concat([]byte{0, opI32Const, 1, opEnd}, wasmtest.U(len(elements)), slices.Concat(elements...))),
		wasmtest.RawSection(secDataCount, []byte{1}),
		wasmtest.Section(secCode, codes...),
		wasmtest.Section(secData, slices.Concat([]byte{1}, wasmtest.Sized(data))))
}

// step returns code that counts a step and traps where there were too many.
func (g *generator) step() []byte {
	const steps = generatedGlobals - 1
	return slices.Concat([]byte{opGlobalGet, steps, opI32Const, 1, opI32Add, opGlobalSet, steps, opGlobalGet, steps},
		constant(generatedSteps), []byte{opI32GtU, opIf, noResult, opUnreachable, opEnd})
}

func constant(n int) []byte { return wasmtest.I32(int64(n)) }

// body returns a function's statements, half the time as Go's compiler makes them.
func (g *generator) body() []byte {
	if g.next(2) == 1 {
		return g.numbered(0)
	}
	return g.statements(0)
}

func (g *generator) statements(depth int) (code []byte) {
	for range g.next(9) {
		if g.size++; g.size > 2000 {
			break
		}
		code = append(code, g.statement(depth)...)
	}
	return code
}

func (g *generator) statement(depth int) []byte {
	kind := g.next(19)
	if depth > 8 && (kind < 6 || kind == 16) {
		kind = 6
	}
	switch kind {
	case 16:
		return g.numbered(depth)
	case 17, 18:
		return g.jump()
	case 0, 1:
		return slices.Concat([]byte{opBlock, noResult}, g.inner(depth), []byte{opEnd})
	case 2:
		return slices.Concat([]byte{opLoop, noResult}, g.step(), g.inner(depth), []byte{opEnd})
	case 3:
		return slices.Concat(g.expression(0), []byte{opIf, noResult}, g.inner(depth), []byte{opEnd})
	case 4, 5:
		return slices.Concat(g.expression(0), []byte{opIf, noResult}, g.inner(depth), []byte{opElse}, g.inner(depth), []byte{opEnd})
	case 6, 7:
		return slices.Concat([]byte{opLocalGet, byte(g.next(generatedLocals))}, g.expression(0),
			[]byte{opI32Add, opLocalSet, byte(g.next(generatedLocals))})
	case 8:
		return slices.Concat(g.expression(0), constant(0x3ffff), []byte{opI32And}, g.expression(0), []byte{0x36, 0, 0})
	case 9, 10, 11:
		return g.branch()
	case 12:
		return slices.Concat(g.expression(0), g.call(), []byte{opLocalSet, byte(g.next(generatedLocals))})
	case 13:
		return g.bulk()
	case 14:
		return bytes.Repeat([]byte{opLocalGet, 0, 0x28, 0, 0, 0x1a}, g.next(100)) // loads
	}
	if g.next(8) == 0 {
		return []byte{opI32Const, 1, 0x40, 0, opGlobalSet, byte(g.next(2))} // memory.grow
	}
	return slices.Concat(g.expression(0), []byte{opGlobalSet, byte(g.next(2))})
}

func (g *generator) inner(depth int) []byte {
	g.blocks++
	defer func() { g.blocks-- }()
	return g.statements(depth + 1)
}

// numbered returns a loop as Go's compiler makes it of a function, or one that is like it.
func (g *generator) numbered(depth int) []byte {
	outer := g.loop
	defer func() { g.loop = outer }()
	local := byte(generatedLocals + g.numbers%generatedNumbers)
	g.numbers++
	if g.next(16) == 1 {
		local = byte(g.next(generatedLocals))
	}
	g.loop = generatedLoop{local: local, at: g.blocks, count: 1 + g.next(5)}
	g.blocks += 1 + g.loop.count
	code := slices.Concat([]byte{opLoop, noResult}, bytes.Repeat([]byte{opBlock, noResult}, g.loop.count))
	code = append(code, opLocalGet, g.loop.local, opBrTable, byte(g.loop.count))
	for range g.loop.count + 1 {
		to := g.next(g.loop.count)
		if g.next(8) == 0 && g.loop.at > 0 {
			to = g.loop.count + 1 + g.next(g.loop.at) // out of the loop
		}
		code = append(code, byte(to))
	}
	for range g.loop.count {
		g.blocks--
		code = slices.Concat(code, []byte{opEnd}, g.step(), g.statements(depth+1))
	}
	g.blocks--
	return append(code, opEnd)
}

// jump returns a jump to a number, or what is like one.
func (g *generator) jump() []byte {
	l := g.loop
	if l.count == 0 {
		return nil
	}
	local := l.local
	if g.next(16) == 1 {
		local = byte(g.next(generatedLocals))
	}
	code, to := slices.Concat(constant(g.next(8)-1), []byte{opLocalSet, local}), byte(g.blocks-1-l.at)
	switch g.next(24) {
	case 0:
		return slices.Concat(code, g.expression(0), []byte{opBrIf, to})
	case 1, 2, 3:
		return append(code, opBr, to)
	case 4, 5, 6:
		return slices.Concat(g.expression(0), []byte{opIf, noResult}, code, []byte{opBr, to + 1, opElse}, g.expression(2), []byte{0x1a, opEnd})
	}
	return slices.Concat(g.expression(0), []byte{opIf, noResult}, code, []byte{opBr, to + 1, opEnd})
}

func (g *generator) branch() []byte {
	if g.blocks == 0 || g.next(10) == 0 {
		return slices.Concat(g.expression(0), []byte{opIf, noResult}, g.expression(0), []byte{opReturn, opEnd})
	}
	switch to := g.label(); g.next(4) {
	case 0:
		return []byte{opBr, to}
	case 1:
		n := g.next(6)
		code := append(g.expression(0), opBrTable, byte(n))
		for range n {
			code = append(code, g.label())
		}
		return append(code, to)
	default:
		return append(g.expression(0), opBrIf, to)
	}
}

// label returns the label of a block. It seldom is that of the loop which jumps lead to.
func (g *generator) label() byte {
	to := g.next(g.blocks)
	if l := g.loop; l.count > 0 && to == g.blocks-1-l.at && g.next(16) != 1 {
		to = (to + 1) % g.blocks
	}
	return byte(to)
}

// call returns a call with the argument that is on the stack.
func (g *generator) call() []byte {
	if g.next(3) > 0 {
		return []byte{opCall, byte(g.next(generatedFunctions))}
	}
	return append(constant(g.next(generatedFunctions+3)), opCallIndirect, 0, 0)
}

func (g *generator) bulk() []byte {
	at := func() []byte {
		if g.next(16) == 0 {
			return constant(-1 - g.next(200)*777)
		}
		return constant(g.next(256) * 1001)
	}
	code := slices.Concat(at(), at(), at())
	if g.next(2) == 0 {
		code = slices.Concat(at(), at(), constant(g.next(256)+8)) // short
	}
	switch g.next(4) {
	case 0:
		return append(code, bulkFill.op...)
	case 1:
		return append(code, "\xfc\x08\x00\x00"...) // memory.init
	case 2:
		if g.next(8) == 0 {
			return []byte{opMisc, 9, 0} // data.drop
		}
	}
	return append(code, bulkCopy.op...)
}

func (g *generator) expression(depth int) []byte {
	if depth > 3 {
		return []byte{opLocalGet, byte(g.next(generatedLocals))}
	}
	switch g.next(8) {
	case 0:
		return constant(int(int32(binary.LittleEndian.Uint32([]byte{byte(g.next(256)), byte(g.next(256)), 0, byte(g.next(256))}))))
	case 1:
		return slices.Concat(g.expression(depth+1), constant(0x3ffff), []byte{opI32And, 0x28, 0, 0})
	case 2:
		return []byte{opGlobalGet, byte(g.next(2))}
	case 3:
		return slices.Concat(g.expression(depth+1), g.expression(depth+1), []byte{0x6e}) // division
	case 4:
		return slices.Concat(g.expression(depth+1), g.expression(depth+1), []byte{opI32Add})
	case 5:
		return slices.Concat(g.expression(depth+1), g.expression(depth+1), []byte{opI32LeU})
	}
	return []byte{opLocalGet, byte(g.next(generatedLocals))}
}
