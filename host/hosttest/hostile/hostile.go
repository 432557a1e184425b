// Package hostile has guests that try to use more of a machine than their limits
// allow, for tests of what comes of each, and for benches of what it costs everybody
// else.
package hostile

import (
	"context"
	"strings"
	"sync"

	"partneredge/host"
	"partneredge/host/wasmtest"
	"partneredge/wasm/abi"
)

// Guest is a module that attacks when it is asked with Attack, and answers any other
// request honestly.
type Guest struct {
	// Name says what the guest does.
	Name string
	// Ends are the reasons for which an attack may end. Empty: it is answered.
	Ends []host.Reason
	code guest
}

// Wasm returns the module.
func (g *Guest) Wasm() []byte { return g.code.assemble() }

// Open opens the guest with all that it may ask for.
func (g *Guest) Open(ctx context.Context, r *host.Runtime, limits host.Limits) (*host.Module, error) {
	manifest := host.Manifest{Name: "hostile", Capabilities: []abi.Capability{abi.Subscriptions}}
	return r.Open(ctx, g.Wasm(), manifest, host.Capabilities{Subscriptions: &subscriptions{}}, limits)
}

// Attack makes the guest attack, and returns what came of it.
func Attack(ctx context.Context, m *host.Module) error {
	return m.Call(ctx, &abi.Request{Method: "POST", Path: "/", Body: []byte(strings.Repeat("x", 2*longRequest))}, &abi.Response{})
}

// subscriptions keeps nothing.
type subscriptions struct {
	host.Subscriptions
	mu   sync.Mutex
	seen int // bytes
}

func (s *subscriptions) Revoke(_ context.Context, _ abi.Principal, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen += len(id)
	return false, nil
}

const (
	small  = 16   // pages of memory
	large  = 1000 // of the 1 024 that the default limit allows
	page   = 4 << 10
	end    = large << 16
	nearly = end - freeAt - 1<<16
)

// ring is code that links places all over the memory in an order that no processor
// foresees: each holds the address of the next.
func ring() []byte {
	const n, stride = 1 << 19, 116
	at := func(i []byte) []byte { return join(i, num(stride), []byte{0x6c}, num(freeAt), []byte{0x6a}) }
	next := join(get(a), num(1664525), []byte{0x6c}, num(1013904223), []byte{0x6a}, num(n-1), []byte{0x71})
	return times(a, n, at(get(a)), at(next), []byte{0x36, 2, 0})
}

// miss follows the ring.
func miss(rounds int64) []byte { return times(b, rounds, loads(a, 800)) }

// touch writes to each page of the memory from freeAt on.
func touch(end int64, offset uint64) []byte {
	return join(num(freeAt), set(a), []byte{0x03, 0x40}, store(a, offset), add(a, page),
		get(a), num(end), []byte{0x49, 0x0d, 0, 0x0b})
}

// growTable grows the table by n elements, if it can.
func growTable(n int64) []byte {
	return join([]byte{0xd0, 0x70}, num(n), []byte{0xfc, 0x0f, 0, 0x1a})
}

// wide is edge.call with an input of 60 MiB.
func wide(op abi.Op) []byte {
	return join(num(int64(op)), num(freeAt), num(60<<20), num(0x8000), num(256), call(wasmtest.Call), []byte{0x1a})
}

// deeper calls Self with one less than its parameter until that is 0, with code
// before and after.
func deeper(before, after []byte) []byte {
	return join(get(0), when(before, get(0), num(1), []byte{0x6b}, call(wasmtest.Self), set(a), after), get(0))
}

// values has n values on the stack while it calls Self.
func values(n int) []byte {
	return join(repeat(n, get(0), []byte{0x28, 2, 0}), get(0), call(wasmtest.Self), repeat(n, []byte{0x6a}))
}

var (
	byCPU  = []host.Reason{host.CPUDeadline}
	either = []host.Reason{host.CPUDeadline, host.Trap}
)

// Guests returns every guest.
func Guests() []Guest {
	return []Guest{
		{"spins", byCPU, guest{pages: small, attack: forever()}},
		{"divides", byCPU, guest{pages: small, attack: forever(repeat(5000, num(7), get(0), []byte{0x6d, 0x1a}))}},
		{"misses the cache", byCPU, guest{pages: large, start: ring(), attack: join(num(freeAt), set(a), forever(miss(10_000)))}},
		{"skips much code, then misses the cache", byCPU, guest{pages: large, start: ring(), attack: join(num(freeAt), set(a), forever(
			times(b, 300, block([]byte{0x0c, 0}, repeat(50_000, []byte{0x01}))), miss(10_000)))}},
		{"misses the cache in straight code", byCPU, guest{pages: large, start: ring(), attack: join(num(freeAt), set(a), forever(loads(a, 10_000)))}},
		{"touches all pages", byCPU, guest{pages: large, attack: forever(touch(end-page, 0))}},
		{"writes across pages", byCPU, guest{pages: large, attack: forever(touch(end-2*page, page-2))}},
		{"grows and touches all", byCPU, guest{pages: small, attack: forever(num(1), []byte{0x40, 0, 0x1a},
			[]byte{0x3f, 0}, num(16), []byte{0x74}, num(-page), []byte{0x6a}, set(a), repeat(16, add(a, -page), store(a, 0)))}},
		{"fills memory", byCPU, guest{pages: large, attack: forever(num(freeAt), num(1), num(nearly), []byte{0xfc, 0x0b, 0})}},
		{"copies memory up", byCPU, guest{pages: large, attack: forever(num(freeAt+8), num(freeAt), num(nearly), []byte{0xfc, 0x0a, 0, 0})}},
		{"copies memory down", byCPU, guest{pages: large, attack: forever(num(freeAt), num(freeAt+8), num(nearly), []byte{0xfc, 0x0a, 0, 0})}},
		{"copies a segment", byCPU, guest{pages: large, data: 4 << 20, attack: forever(num(freeAt), num(0), num(4<<20), []byte{0xfc, 0x08, 1, 0})}},
		{"grows a table", byCPU, guest{pages: small, attack: forever(growTable(1000))}},
		{"fills a table", byCPU, guest{pages: small, attack: join(growTable(60_000),
			forever(num(0), []byte{0xd0, 0x70}, num(60_000), []byte{0xfc, 0x11, 0}))}},
		{"grows a table by minus a million again and again", byCPU, guest{pages: large, start: ring(),
			attack: join(num(freeAt), set(a), forever(growTable(-1_000_000), miss(300)))}},
		{"grows a table by more than half of all numbers", byCPU, guest{pages: large, start: ring(),
			attack: join(num(freeAt), set(a), growTable(0x8000C350), forever(miss(10_000)))}},
		{"calls itself without end", either, guest{pages: small, attack: join(num(-1), call(wasmtest.Self), []byte{0x1a}), self: deeper(nil, nil)}},
		{"calls itself with many values", either, guest{pages: small, attack: join(get(0), call(wasmtest.Self), []byte{0x1a}), self: values(5000)}},
		{"returns from deep calls to work", byCPU, guest{pages: large, start: ring(),
			attack: forever(num(800), call(wasmtest.Self), []byte{0x1a}), self: deeper(nil, join(num(freeAt), set(a), loads(a, 500)))}},
		{"keeps a deep stack", nil, guest{pages: small, attack: join(num(800), call(wasmtest.Self), []byte{0x1a}), self: deeper(nil, nil)}},
		{"calls the host with much", []host.Reason{host.CPUDeadline, host.HostCalls}, guest{pages: large, attack: forever(wide(abi.OpRevoke))}},
		{"asks for much randomness", []host.Reason{host.CPUDeadline, host.HostCalls},
			guest{pages: large, attack: forever(num(freeAt), num(60<<20), call(wasmtest.Random), []byte{0x1a})}},
		{"logs without end", []host.Reason{host.LogBytes}, guest{pages: large, attack: forever(num(8), num(freeAt), num(1<<20), call(wasmtest.Log))}},
		{"sleeps without end", []host.Reason{host.WallDeadline, host.HostCalls}, guest{pages: small, attack: sleep()}},
		{"answers with all its memory", []host.Reason{host.ResponseSize}, guest{pages: large,
			attack: join(wasmtest.I64(freeAt<<32|int64(nearly)), []byte{0x0f})}},
	}
}

// sleep waits for an hour, again and again.
func sleep() []byte {
	const subscription, hour = 0x8000, int64(3600) * 1e9
	word := func(at, v int64) []byte { return join(num(at), wasmtest.I64(v), []byte{0x37, 3, 0}) }
	return join(word(subscription, 0), word(subscription+8, 0), word(subscription+16, 1), // of the monotonic clock
		word(subscription+24, hour), word(subscription+32, 0), word(subscription+40, 0),
		forever(num(subscription), num(0x9000), num(1), num(0xa000), call(wasmtest.Poll), []byte{0x1a}))
}
