package host

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"partneredge/host/memory"
	"partneredge/host/wasi"
	"partneredge/wasm/abi"
)

// A module assembled byte by byte, for what no compiler makes. It has 2 pages of memory, the frame of an answer with a body of 8 bytes at
// answerAt, a mutable i32 global 0 and v128 global 1, a table of 4 functions,
// a passive data segment 1 and a passive element segment 1.
const (
	answerAt = 0x400
	inputAt  = 0x1000
)

// assembled returns the module; body is the code of edge_handle up to what it returns,
// with a local 0 (parameter) and 1 (both i32), and start that of _initialize. It answers
// whatever bytes it put at bodyAt.
func assembled(body, start []byte) []byte {
	resp := abi.Response{Status: 200, Body: make([]byte, 8)}
	frame := resp.Append(nil)
	u := func(n int) []byte { return binary.AppendUvarint(nil, uint64(n)) }
	cat := func(parts ...[]byte) (out []byte) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	section := func(id byte, items ...[]byte) []byte {
		content := cat(u(len(items)), cat(items...))
		return cat([]byte{id}, u(len(content)), content)
	}
	name := func(s string) []byte { return cat(u(len(s)), []byte(s)) }
	code := func(locals, body []byte) []byte {
		b := cat(locals, body, []byte{0x0b})
		return cat(u(len(b)), b)
	}
	constant := func(v uint64) []byte { return cat([]byte{0x42}, sleb(int64(v))) }
	handle := cat(body, constant(answerAt<<32|uint64(len(frame))))
	return cat([]byte{0, 'a', 's', 'm', 1, 0, 0, 0},
		section(1,
			[]byte{0x60, 0, 1, 0x7e}, // 0: -> i64
			[]byte{0x60, 1, 0x7f, 1, 0x7e},
			[]byte{0x60, 5, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f}, // 2: edge.call
			[]byte{0x60, 3, 0x7f, 0x7f, 0x7f, 0},                   // 3: edge.log
			[]byte{0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f},       // 4: fd_write
			[]byte{0x60, 0, 0}),                                    // 5
		section(2,
			cat(name("edge"), name("call"), []byte{0, 2}),
			cat(name("edge"), name("log"), []byte{0, 3}),
			cat(name(wasi.Module), name("fd_write"), []byte{0, 4})),
		section(3, []byte{0}, []byte{1}, []byte{5}),
		section(4, []byte{0x70, 0, 4}),
		section(5, []byte{0, 2}),
		section(6,
			[]byte{0x7f, 1, 0x41, 0, 0x0b},
			cat([]byte{0x7b, 1, 0xfd, 0x0c}, make([]byte, 16), []byte{0x0b})),
		section(7,
			cat(name("memory"), []byte{2, 0}),
			cat(name("edge_input"), []byte{0, 3}),
			cat(name("edge_handle"), []byte{0, 4}),
			cat(name("_initialize"), []byte{0, 5})),
		section(9,
			[]byte{0, 0x41, 0, 0x0b, 1, 3}, // active: edge_input at 0
			[]byte{1, 0, 1, 4}),            // passive
		[]byte{12, 1, 2},
		section(10,
			code([]byte{0}, constant(inputAt<<32|abi.InputSize)),
			code([]byte{1, 1, 0x7f}, handle),
			code([]byte{0}, start)),
		section(11,
			cat([]byte{0, 0x41}, sleb(answerAt), []byte{0x0b}, u(len(frame)), frame),
			[]byte{1, 1, 0x5a}))
}

func sleb(v int64) (b []byte) {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// asm joins opcodes (int, one byte each) and numbers (num).
func asm(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case num:
			b = append(append(b, 0x41), sleb(int64(int32(p)))...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

type num uint32 // i32.const

// bodyAt returns where the answer's body lies.
func bodyAt() num {
	resp := abi.Response{Status: 200, Body: make([]byte, 8)}
	return num(answerAt + len(resp.Append(nil)) - 8)
}

// answerWith stores what code leaves on the stack, an i32, into the answer.
func answerWith(code []byte) []byte { return asm(bodyAt(), code, 0x36, 2, 0) }

// whenLong runs code only for a request with a long body, which no warm-up has.
func whenLong(code []byte) []byte { return asm(0x20, 0, num(150), 0x4a, 0x04, 0x40, code, 0x0b) }

var long = strings.Repeat("x", 100)

// TestStateIsReset holds that a module that counts its calls, in any place where it can,
// always answers the same number.
func TestStateIsReset(t *testing.T) {
	zero := asm(0x41, 0)
	tests := []struct {
		name        string
		body, start []byte
		repeats     bool // sandboxes are made by repeating the warm-up
	}{
		{name: "nothing", body: answerWith(zero)},
		{name: "memory", body: asm(num(0x8000), num(0x8000), 0x28, 2, 0, num(1), 0x6a, 0x36, 2, 0, // ++[0x8000]
			answerWith(asm(num(0x8000), 0x28, 2, 0)))},
		{name: "global", body: asm(0x23, 0, num(1), 0x6a, 0x24, 0, answerWith(asm(0x23, 0)))},
		{name: "global of 128 bits", body: asm(
			0x23, 1, num(1), 0xfd, 0x11, 0xfd, 0xae, 1, 0x24, 1, // += splat 1
			answerWith(asm(0x23, 1, 0xfd, 0x1b, 3)))}, // lane 3
		{name: "table set", body: asm(answerWith(asm(num(2), 0x25, 0, 0xd1)), // is [2] null?
			num(2), num(0), 0x25, 0, 0x26, 0)}, // [2] = [0]
		{name: "table init", body: asm(answerWith(asm(num(2), 0x25, 0, 0xd1)), num(2), num(0), num(1), 0xfc, 0x0c, 1, 0)},
		{name: "table copy", body: asm(answerWith(asm(num(2), 0x25, 0, 0xd1)), num(2), num(0), num(1), 0xfc, 0x0e, 0, 0)},
		{name: "table fill", body: asm(answerWith(asm(num(0), 0x25, 0, 0xd1)), num(0), 0xd0, 0x70, num(1), 0xfc, 0x11, 0)},
		{name: "table grow", body: asm(0xd0, 0x70, num(1), 0xfc, 0x0f, 0, 0x1a, answerWith(asm(0xfc, 0x10, 0)))},
		{name: "data drop", body: asm(whenLong(asm(num(0x8000), num(0), num(1), 0xfc, 8, 1, 0, 0xfc, 9, 1)),
			answerWith(asm(num(0x8000), 0x28, 2, 0)))},
		{name: "element drop", body: asm(whenLong(asm(num(2), num(0), num(1), 0xfc, 0x0c, 1, 0, 0xfc, 0x0d, 1)), answerWith(zero))},
		{name: "reference", body: asm(0xd2, 3, 0x1a, answerWith(zero))},
		{name: "memory grow", body: asm(num(1), 0x40, 0, 0x1a, answerWith(asm(0x3f, 0)))},
		{name: "table set at start", repeats: true, start: asm(num(2), num(0), 0x25, 0, 0x26, 0),
			body: asm(answerWith(asm(num(2), 0x25, 0, 0xd1)), num(2), 0xd0, 0x70, 0x26, 0)},
		{name: "data drop at start", repeats: true,
			start: asm(num(0x8000), num(0), num(1), 0xfc, 8, 1, 0, 0xfc, 9, 1),
			body:  answerWith(asm(num(0x8000), 0x28, 2, 0))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, m, _ := openHostile(t, assembled(tt.body, tt.start), memory.Auto, Limits{Sandboxes: 2})
			want, err := ask(m, "/", long)
			if err != nil {
				t.Fatal(err)
			}
			for range 50 {
				got, err := ask(m, "/", long)
				if err != nil || got != want {
					t.Fatalf("got %q, %v, want %q", got, err, want)
				}
			}
			m.pool.makers.Wait()
			if left := 2<<30 - r.ceiling.left; left != m.Stats().Sandboxes*m.image.size() {
				t.Errorf("%d bytes accounted for, %d sandboxes of %d", left, m.Stats().Sandboxes, m.image.size())
			}
			if tt.repeats && m.image.state == 0 {
				t.Error("the change of state at the start was not seen")
			}
		})
	}
}

// TestFailures holds that each attack ends for its reason, and that the next request is
// served. The attack only comes when the request is longer than the warm-up's.
func TestFailures(t *testing.T) {
	honest := answerWith(asm(num(0x8000), 0x28, 2, 0))
	for _, tt := range failures() {
		t.Run(tt.name, func(t *testing.T) {
			_, m, log := openHostile(t, assembled(asm(whenLong(tt.attack), honest), nil), memory.Auto, Limits{Sandboxes: 2})
			want, err := ask(m, "/", "")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = ask(m, "/", long)
			if got := ReasonOf(err); got != tt.want && (tt.name != "endless recursion" || got != CPUDeadline) {
				t.Errorf("got %q, want %q: %v", got, tt.want, err)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if n := log.Count("module call failed"); tt.want != "" && n != 1 {
				t.Errorf("logged %d times", n)
			}
			if got, err := ask(m, "/", ""); err != nil || got != want {
				t.Errorf("then got %q, %v, want %q", got, err, want)
			}
			pristine(t, m)
		})
	}
}

type failure struct {
	name   string
	attack []byte
	want   Reason // "": it is answered
}

func failures() []failure {
	call := func(args ...num) []byte {
		var b []byte
		for _, a := range args {
			b = append(b, asm(a)...)
		}
		return asm(b, 0x10, 0, 0x1a)
	}
	return []failure{
		{"call beyond memory", call(1, 0xfffffff0, 100, 0, 8), BadPointer},
		{"call with a length beyond", call(1, 0, 0x7fffffff, 0, 8), BadPointer},
		{"call out beyond memory", call(1, 0, 8, 0xfffffff0, 0xffffffff), BadPointer},
		{"call of a huge op", call(0x7fffffff, 0, 0, 0, 0), ""},
		{"call of a negative op", call(0x80000000, 0, 0, 0, 0), ""},
		{"log beyond memory", asm(num(0), num(0x1fff0), num(0x100), 0x10, 1), BadPointer},
		{"empty lines without end", asm(0x03, 0x40, num(8), num(0), num(0), 0x10, 1, 0x0c, 0, 0x0b), LogBytes},
		{"fd_write of vectors beyond memory", asm(num(1), num(0x1ffff), num(0x20000000), num(0), 0x10, 2, 0x1a), ""},
		{"answer beyond memory", asm(0x42, sleb(0x7ffffff0<<32|100), 0x0f), BadPointer},
		{"answer of great length", asm(0x42, sleb(0x10<<32|0xffffffff), 0x0f), ResponseSize},
		{"answer at -1", asm(0x42, sleb(-1), 0x0f), ResponseSize},
		{"answer of nothing", asm(0x42, 0, 0x0f), BadResponse},
		{"answer of garbage", asm(0x42, sleb(0x10000<<32|64), 0x0f), BadResponse},
		{"load beyond memory", asm(num(0x1fffffff), 0x28, 2, 0, 0x1a), Trap},
		{"unreachable", asm(0x00), Trap},
		{"division by zero", asm(num(1), num(0), 0x6d, 0x1a), Trap},
		{"endless loop", asm(0x03, 0x40, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless loop of fills", asm(0x03, 0x40, num(0x2000), num(0), num(0x1d000), 0xfc, 0x0b, 0, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless loop of copies", asm(0x03, 0x40, num(0x2000), num(0x2001), num(0x1d000), 0xfc, 0x0a, 0, 0, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless loop of references", asm(0x03, 0x40, 0xd2, 3, 0x1a, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless loop of growth", asm(0x03, 0x40, num(1), 0x40, 0, 0x1a, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless recursion", asm(num(200), 0x10, 4, 0x1a), Trap},
		{"refused growth", asm(num(0x1000), 0x40, 0, num(0xffffffff), 0x46, 0x04, 0x40, 0x00, 0x0b), Memory},
		{"table without end", asm(0x03, 0x40, 0xd0, 0x70, num(1000), 0xfc, 0x0f, 0, 0x1a, 0x0c, 0, 0x0b), CPUDeadline},
	}
}

func TestOpenRefuses(t *testing.T) {
	ctx := context.Background()
	r, err := New(ctx, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close(ctx)
	good := assembled(answerWith(asm(num(0))), nil)
	for _, tt := range []struct {
		name     string
		wasm     []byte
		manifest Manifest
		limits   Limits
		want     string
	}{
		{"garbage", []byte("garbage"), Manifest{}, Limits{}, "not a WebAssembly module"},
		{"memory", good, Manifest{}, Limits{Memory: 1 << 16}, "more than its limit"},
		{"dial without a port", good, Manifest{AllowDial: []string{"example.com"}}, Limits{}, "missing port"},
		{"dial port 0", good, Manifest{AllowDial: []string{"example.com:0"}}, Limits{}, "port"},
		{"dial port by name", good, Manifest{AllowDial: []string{"example.com:https"}}, Limits{}, "port"},
		{"dial nobody", good, Manifest{AllowDial: []string{":443"}}, Limits{}, "neither an address nor a name"},
		{"dial everybody", good, Manifest{AllowDial: []string{"*.example.com:443"}}, Limits{}, "neither an address nor a name"},
		{"dial a mapped address", good, Manifest{AllowDial: []string{"[::ffff:1.1.1.1]:443"}}, Limits{}, "zone"},
		{"dial a zone", good, Manifest{AllowDial: []string{"[fe80::1%lo]:443"}}, Limits{}, "zone"},
		{"imports", []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x02\x0a\x01\x03env\x02fn\x00\x00"), Manifest{}, Limits{}, "env.fn"},
		{"no exports", []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01"), Manifest{}, Limits{}, abi.ExportHandle},
		{"no memory", []byte("\x00asm\x01\x00\x00\x00"), Manifest{}, Limits{}, "memory"},
		{"start traps", assembled(answerWith(asm(num(0))), asm(0x00)), Manifest{}, Limits{}, "trap"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := r.Open(ctx, tt.wasm, tt.manifest, Capabilities{}, tt.limits)
			if err == nil {
				m.Close(ctx)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	// A module that spins while it starts is ended with the context.
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := r.Open(short, assembled(answerWith(asm(num(0))), asm(0x03, 0x40, 0x0c, 0, 0x0b)), Manifest{}, Capabilities{}, Limits{}); err == nil ||
		ReasonOf(err) != WallDeadline && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("start that spins: got %v", err)
	}
}
