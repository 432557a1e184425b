package host

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"runtime"

	"partneredge/host/engine"
)

// WASI preview 1 (witx/wasi_snapshot_preview1.witx of the WASI repository),
// without state: nothing that a guest does here is there for the next request.
// There are no arguments, no environment, no files; standard input is empty,
// and what goes to standard output and error goes to the log. Modules with an
// allow_dial have sockets, which end with the call.

const wasiModule = "wasi_snapshot_preview1"

// errno is a WASI error number.
type errno uint32

const (
	wasiOK          errno = 0
	wasiAccess      errno = 2
	wasiBadFD       errno = 8
	wasiFault       errno = 21
	wasiUnreachable errno = 23 // EHOSTUNREACH
	wasiInvalid     errno = 28
	wasiNoSys       errno = 52
	wasiNotSup      errno = 58
	wasiPipe        errno = 70 // ESPIPE: cannot seek
	wasiTimedOut    errno = 73
)

// wasiFunc is a WASI function: sig names its parameters, i for i32 and I for
// i64; its result is the errno.
type wasiFunc struct {
	name, sig string
	call      func(c *call, memory []byte, args []uint64) errno
}

var wasiTable = [...]wasiFunc{
	{"args_get", "ii", empty},
	{"args_sizes_get", "ii", emptySizes},
	{"environ_get", "ii", empty},
	{"environ_sizes_get", "ii", emptySizes},
	{"clock_res_get", "ii", clockRes},
	{"clock_time_get", "iIi", clockTime},
	{"fd_advise", "iIIi", badFD},
	{"fd_allocate", "iII", badFD},
	{"fd_close", "i", stdio},
	{"fd_datasync", "i", badFD},
	{"fd_fdstat_get", "ii", fdstat},
	{"fd_fdstat_set_flags", "ii", stdio},
	{"fd_fdstat_set_rights", "iII", badFD},
	{"fd_filestat_get", "ii", filestat},
	{"fd_filestat_set_size", "iI", badFD},
	{"fd_filestat_set_times", "iIIi", badFD},
	{"fd_pread", "iiiIi", badFD},
	{"fd_prestat_get", "ii", badFD},
	{"fd_prestat_dir_name", "iii", badFD},
	{"fd_pwrite", "iiiIi", badFD},
	{"fd_read", "iiii", fdRead},
	{"fd_readdir", "iiiIi", badFD},
	{"fd_renumber", "ii", badFD},
	{"fd_seek", "iIii", fdSeek},
	{"fd_sync", "i", badFD},
	{"fd_tell", "ii", fdSeek},
	{"fd_write", "iiii", fdWrite},
	{"path_create_directory", "iii", badFD},
	{"path_filestat_get", "iiiii", badFD},
	{"path_filestat_set_times", "iiiiIIi", badFD},
	{"path_link", "iiiiiii", badFD},
	{"path_open", "iiiiiIIii", badFD},
	{"path_readlink", "iiiiii", badFD},
	{"path_remove_directory", "iii", badFD},
	{"path_rename", "iiiiii", badFD},
	{"path_symlink", "iiiii", badFD},
	{"path_unlink_file", "iii", badFD},
	{"poll_oneoff", "iiii", poll},
	{"proc_exit", "i", exit},
	{"proc_raise", "i", noSys},
	{"random_get", "ii", random},
	{"sched_yield", "", yield},
	{"sock_accept", "iii", noSocket},
	{"sock_bind", "iii", noSocket},
	{"sock_connect", "iii", noSocket},
	{"sock_getaddrinfo", "iiiiiiii", noSocket},
	{"sock_getlocaladdr", "iii", noSocket},
	{"sock_getpeeraddr", "iii", noSocket},
	{"sock_getsockopt", "iiiii", noSocket},
	{"sock_listen", "ii", noSocket},
	{"sock_open", "iii", noSocket},
	{"sock_recv", "iiiiii", badFD},
	{"sock_recv_from", "iiiiiiii", noSocket},
	{"sock_send", "iiiii", badFD},
	{"sock_send_to", "iiiiiii", noSocket},
	{"sock_setsockopt", "iiiii", noSocket},
	{"sock_shutdown", "ii", badFD},
}

func wasiFuncs() []engine.Func {
	funcs := make([]engine.Func, 0, len(wasiTable))
	for _, w := range &wasiTable {
		if s, ok := socketCalls[w.name]; ok {
			w.call = orSocket(w.call, s)
		}
		f := engine.Func{Module: wasiModule, Name: w.name, Results: []engine.ValueType{engine.I32}}
		for _, p := range w.sig {
			t := engine.I32
			if p == 'I' {
				t = engine.I64
			}
			f.Params = append(f.Params, t)
		}
		if w.name == "proc_exit" {
			f.Results = nil
		}
		f.Call = func(ctx context.Context, memory []byte, stack []uint64) {
			c := ctx.(*call)
			c.count(1)
			if n := w.call(c, memory, stack); len(stack) > 0 {
				stack[0] = uint64(n)
			}
		}
		funcs = append(funcs, f)
	}
	return funcs
}

// at is the n bytes at ptr, nil when they are not all in memory.
func at(memory []byte, ptr uint64, n int) []byte {
	p := uint64(uint32(ptr))
	if p+uint64(n) > uint64(len(memory)) {
		return nil
	}
	return memory[p : p+uint64(n)]
}

func put32(memory []byte, ptr uint64, v uint32) errno {
	b := at(memory, ptr, 4)
	if b == nil {
		return wasiFault
	}
	binary.LittleEndian.PutUint32(b, v)
	return wasiOK
}

func put64(memory []byte, ptr uint64, v uint64) errno {
	b := at(memory, ptr, 8)
	if b == nil {
		return wasiFault
	}
	binary.LittleEndian.PutUint64(b, v)
	return wasiOK
}

func empty(*call, []byte, []uint64) errno { return wasiOK }

func emptySizes(_ *call, memory []byte, args []uint64) errno {
	if e := put32(memory, args[0], 0); e != wasiOK {
		return e
	}
	return put32(memory, args[1], 0)
}

func badFD(*call, []byte, []uint64) errno { return wasiBadFD }

func noSys(*call, []byte, []uint64) errno { return wasiNoSys }

// isStdio tells whether a descriptor is standard input, output or error.
func isStdio(fd uint64) bool { return uint32(fd) <= 2 }

// stdio accepts what is asked of a standard descriptor, and does nothing.
func stdio(_ *call, _ []byte, args []uint64) errno {
	if !isStdio(args[0]) {
		return wasiBadFD
	}
	return wasiOK
}

const characterDevice = 2 // a filetype

func fdstat(_ *call, memory []byte, args []uint64) errno {
	if !isStdio(args[0]) {
		return wasiBadFD
	}
	b := at(memory, args[1], 24) // u8 filetype, u16 flags, u64 rights, u64 inheriting rights
	if b == nil {
		return wasiFault
	}
	clear(b)
	b[0] = characterDevice
	rights := uint64(1 << 6) // fd_write
	if uint32(args[0]) == 0 {
		rights = 1 << 1 // fd_read
	}
	binary.LittleEndian.PutUint64(b[8:], rights)
	return wasiOK
}

func filestat(_ *call, memory []byte, args []uint64) errno {
	if !isStdio(args[0]) {
		return wasiBadFD
	}
	b := at(memory, args[1], 64) // u64 device, inode; u8 filetype; u64 links, size, three times
	if b == nil {
		return wasiFault
	}
	clear(b)
	b[16] = characterDevice
	return wasiOK
}

func fdSeek(_ *call, _ []byte, args []uint64) errno {
	if !isStdio(args[0]) {
		return wasiBadFD
	}
	return wasiPipe
}

func fdRead(_ *call, memory []byte, args []uint64) errno {
	if uint32(args[0]) != 0 {
		return wasiBadFD
	}
	return put32(memory, args[3], 0)
}

// fdWrite logs each line written to standard output or error.
func fdWrite(c *call, memory []byte, args []uint64) errno {
	if fd := uint32(args[0]); fd != 1 && fd != 2 {
		return wasiBadFD
	}
	parts, e := vectors(memory, args[1], args[2])
	if e != wasiOK {
		return e
	}
	written := 0
	for _, b := range parts {
		written += len(b)
		c.output(b)
	}
	return put32(memory, args[3], uint32(written))
}

func (c *call) output(b []byte) {
	if c.logged+len(c.line)+len(b) > c.m.limits.Log {
		if c.warm != nil {
			return
		}
		c.stop(LogBytes, nil)
	}
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			c.line = append(c.line, b...)
			return
		}
		line := append(c.line, b[:i]...)
		c.line = line[:0]
		b = b[i+1:]
		c.log(slog.LevelWarn, line)
	}
}

func exit(c *call, _ []byte, args []uint64) errno {
	c.stop(Exit, exitCode(uint32(args[0])))
	return wasiOK
}

func yield(*call, []byte, []uint64) errno {
	runtime.Gosched()
	return wasiOK
}

// random fills from the host's entropy: what an image holds is the same for
// every request, what is asked for in a request never is.
func random(c *call, memory []byte, args []uint64) errno {
	n := uint32(args[1])
	c.count(int(n >> 12)) // so that a great many bytes cost what as many calls do
	b := at(memory, args[0], int(n))
	if b == nil {
		return wasiFault
	}
	if c.warm != nil {
		c.warm.random.Read(b)
	} else if _, err := io.ReadFull(c.m.runtime.random, b); err != nil {
		c.stop(Failed, err)
	}
	return wasiOK
}

const (
	clockRealtime  = 0
	clockMonotonic = 1
	clockMax       = 3
)

func clockRes(_ *call, memory []byte, args []uint64) errno {
	if uint32(args[0]) > clockMax {
		return wasiInvalid
	}
	return put64(memory, args[1], 1)
}

func clockTime(c *call, memory []byte, args []uint64) errno {
	if uint32(args[0]) > clockMax {
		return wasiInvalid
	}
	return put64(memory, args[2], c.clock(uint32(args[0])))
}

// clock is a WASI clock's time in nanoseconds.
func (c *call) clock(id uint32) uint64 {
	switch {
	case c.warm != nil:
		return c.warm.clock(id)
	case id != clockRealtime:
		return uint64(c.m.runtime.elapsed() + afterWarm)
	case c.now != 0:
		return uint64(c.now) * 1000
	}
	return uint64(c.m.runtime.clock().UnixNano())
}
