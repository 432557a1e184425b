package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"partneredge/host/memory"
	"partneredge/host/wasmtest"
	"partneredge/wasm/abi"
)

// answering returns a guest that answers whatever bytes its code put at bodyAt. body is
// the code of edge_handle, and start that of _initialize.
func answering(body, start []byte) wasmtest.Guest {
	return wasmtest.Guest{Pages: 2, Handle: body, Start: start, Answer: make([]byte, 8), Data: []byte{0x5a}}
}

func assembled(body, start []byte) []byte { return answering(body, start).Assemble() }

// asm joins opcodes (int, one byte each) and numbers (num).
func asm(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case num:
			b = append(b, wasmtest.I32(int64(p))...)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

type num uint32 // i32.const

// bodyAt returns where the answer's body lies.
func bodyAt() num { return num(answering(nil, nil).BodyAt()) }

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
		{name: "reference", body: asm(0xd2, wasmtest.Input, 0x1a, answerWith(zero))},
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
			limits := Limits{Sandboxes: 2}
			if tt.want != CPUDeadline {
				limits.CPU = 10 * time.Second // the machine may have other work
			}
			_, m, log := openHostile(t, assembled(asm(whenLong(tt.attack), honest), nil), memory.Auto, limits)
			want, err := ask(m, "/", "")
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = ask(m, "/", long)
			if got := ReasonOf(err); got != tt.want && (tt.name != "endless recursion" || got != CPUDeadline) {
				t.Errorf("got %q, want %q: %v", got, tt.want, err)
			}
			if took := time.Since(start); took > time.Minute {
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
		{"answer beyond memory", asm(wasmtest.I64(0x7ffffff0<<32|100), 0x0f), BadPointer},
		{"answer of great length", asm(wasmtest.I64(0x10<<32|0xffffffff), 0x0f), ResponseSize},
		{"answer at -1", asm(wasmtest.I64(-1), 0x0f), ResponseSize},
		{"answer of nothing", asm(0x42, 0, 0x0f), BadResponse},
		{"answer of garbage", asm(wasmtest.I64(0x10000<<32|64), 0x0f), BadResponse},
		{"load beyond memory", asm(num(0x1fffffff), 0x28, 2, 0, 0x1a), Trap},
		{"unreachable", asm(0x00), Trap},
		{"division by zero", asm(num(1), num(0), 0x6d, 0x1a), Trap},
		{"endless loop", asm(0x03, 0x40, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless loop of fills", asm(0x03, 0x40, num(0x2000), num(0), num(0x1d000), 0xfc, 0x0b, 0, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless loop of copies", asm(0x03, 0x40, num(0x2000), num(0x2001), num(0x1d000), 0xfc, 0x0a, 0, 0, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless loop of references", asm(0x03, 0x40, 0xd2, wasmtest.Input, 0x1a, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless loop of growth", asm(0x03, 0x40, num(1), 0x40, 0, 0x1a, 0x0c, 0, 0x0b), CPUDeadline},
		{"endless recursion", asm(num(200), 0x10, wasmtest.Handle, 0x1a), Trap},
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
