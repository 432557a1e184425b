package guest

import (
	"unsafe"

	"partneredge/wasm/abi"
)

// caller calls the host. The results of a request's calls lie one after the other
// in memory, since what is parsed from a result shares its bytes.
type caller struct {
	invoke func(op abi.Op, frame, out []byte) int32
	free   []byte // memory for further results
}

// reset starts a request whose results are written to free.
func (c *caller) reset(free []byte) { c.free = free }

// maxRetries bounds the attempts to fetch a result that grows each time between
// being measured and being fetched.
const maxRetries = 4

// call runs one operation and returns its result. The error is an abi.Code.
func (c *caller) call(op abi.Op, frame []byte) ([]byte, error) {
	out := c.free
	n := c.invoke(op, frame, out)
	if n >= 0 && int(n) <= len(out) {
		c.free = out[n:]
		return out[:n:n], nil
	}
	return c.retry(op, frame, n)
}

// retry returns the result of a call that did not return n bytes at once.
func (c *caller) retry(op abi.Op, frame []byte, n int32) ([]byte, error) {
	const short = int32(abi.CodeShort)
	var out []byte
	for i := 0; n <= short && i < maxRetries; i++ {
		out = make([]byte, short-n)
		n = c.invoke(op, frame, out)
	}
	switch {
	case n <= short, int(n) > len(out):
		return nil, abi.CodeFailed
	case n < 0:
		return nil, abi.Code(n)
	}
	return out[:n:n], nil
}

// Log writes one line to the host's log. level is as in log/slog.
func Log(level int, line string) {
	importLog(int32(level), unsafe.Pointer(unsafe.StringData(line)), int32(len(line)))
}

func invoke(op abi.Op, frame, out []byte) int32 {
	return importCall(int32(op), unsafe.Pointer(unsafe.SliceData(frame)), int32(len(frame)),
		unsafe.Pointer(unsafe.SliceData(out)), int32(len(out)))
}

// text returns the bytes of s as a frame. The host only reads them.
func text(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
