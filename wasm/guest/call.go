package guest

import (
	"unsafe"

	"partneredge/wasm/abi"
)

// link is the way to the host. The results of one request's calls take room one
// behind the other, since what is parsed out of one shares its bytes.
type link struct {
	invoke func(op abi.Op, frame, out []byte) int32
	room   []byte // what is left
}

// reset begins a request whose results go to room.
func (l *link) reset(room []byte) { l.room = room }

// tries bounds how often a result may have grown between being measured and
// being fetched.
const tries = 4

// call runs one operation and returns its result. An error is an abi.Code.
func (l *link) call(op abi.Op, frame []byte) ([]byte, error) {
	const short = int32(abi.CodeShort)
	out := l.room
	n := l.invoke(op, frame, out)
	if n > short {
		l.room = out[max(0, min(int(n), len(out))):]
	}
	for i := 0; n <= short && i < tries; i++ {
		out = make([]byte, short-n)
		n = l.invoke(op, frame, out)
	}
	switch {
	case n <= short, int(n) > len(out):
		return nil, abi.CodeFailed
	case n < 0:
		return nil, abi.Code(n)
	}
	return out[:n:n], nil
}

// Log writes one line to the host's log. Level is as in log/slog.
func Log(level int, line string) {
	importLog(int32(level), unsafe.Pointer(unsafe.StringData(line)), int32(len(line)))
}

func invoke(op abi.Op, frame, out []byte) int32 {
	return importCall(int32(op), unsafe.Pointer(unsafe.SliceData(frame)), int32(len(frame)),
		unsafe.Pointer(unsafe.SliceData(out)), int32(len(out)))
}

// text is s as a frame. The host only reads it.
func text(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
