// Package wasi implements WASI preview 1 (witx/wasi_snapshot_preview1.witx of
// the WASI repository) for guests of package host.
//
// A guest has no arguments, no environment and no files. Standard input is
// empty; standard output and error go to the log. Clocks and randomness come
// from the Host. A module with an allow_dial may also connect to others over
// TCP (Dialer); its sockets are closed when the call ends. So nothing that a
// guest does here is there for its next request.
package wasi

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"partneredge/host/engine"
)

// Module is the name of the module that guests import these functions from.
const Module = "wasi_snapshot_preview1"

// Host offers WASI's functions what they need of the guest's call that they are in.
type Host interface {
	// CountCalls counts n calls to the host, and ends the guest's call when there
	// were too many.
	CountCalls(n int)
	// Output logs what the guest wrote to standard output or error.
	Output(p []byte)
	// Clock returns a time in nanoseconds: since the Unix epoch if realtime is set,
	// else of a clock that never goes back.
	Clock(realtime bool) uint64
	// Random fills p with random bytes.
	Random(p []byte)
	// Sleep waits for d, or until the guest's call is ended.
	Sleep(d time.Duration)
	// Uncharged runs f without charging the guest for computing meanwhile.
	Uncharged(f func())
	// Context returns a context that ends with the guest's call: at its deadline,
	// or when its caller gave up.
	Context() context.Context
	// Stop ends the guest's call because of err: an ExitCode, ErrSocketBytes, the
	// error of Context, or another one that is the host's fault. It does not return.
	Stop(err error)
}

// Call is WASI's state in one call of a guest. It may be used for another after
// Close.
type Call struct {
	Host Host
	// Dialer makes the call's connections; nil while a module is warmed up: a
	// connection in an image would be every request's.
	Dialer *Dialer

	sockets *sockets // nil until the guest asks for one
}

// Close closes the sockets that the guest opened.
func (c *Call) Close() {
	c.sockets.close()
	c.sockets = nil
}

// ExitCode is the status that a guest ended itself with.
type ExitCode uint32

func (e ExitCode) Error() string { return fmt.Sprintf("status %d", uint32(e)) }

// errno is a WASI error number.
type errno uint32

const (
	success         errno = 0
	errAccess       errno = 2
	errBadFD        errno = 8
	errFault        errno = 21
	errUnreachable  errno = 23 // EHOSTUNREACH
	errInvalid      errno = 28
	errNoSys        errno = 52
	errNotSupported errno = 58
	errSeek         errno = 70 // ESPIPE
	errTimedOut     errno = 73
)

// handler does the work of a WASI function.
type handler func(c *Call, memory []byte, args []uint64) errno

// table lists WASI's functions. Each rune of params is a parameter: i for i32, I
// for i64. The result of each is its errno.
var table = [...]struct {
	name, params string
	handle       handler
}{
	{"args_get", "ii", always(success)},
	{"args_sizes_get", "ii", emptySizes},
	{"environ_get", "ii", always(success)},
	{"environ_sizes_get", "ii", emptySizes},
	{"clock_res_get", "ii", clockRes},
	{"clock_time_get", "iIi", clockTime},
	{"fd_advise", "iIIi", badFD},
	{"fd_allocate", "iII", badFD},
	{"fd_close", "i", onStdio(always(success))},
	{"fd_datasync", "i", badFD},
	{"fd_fdstat_get", "ii", onStdio(fdstat)},
	{"fd_fdstat_set_flags", "ii", onStdio(always(success))},
	{"fd_fdstat_set_rights", "iII", badFD},
	{"fd_filestat_get", "ii", onStdio(filestat)},
	{"fd_filestat_set_size", "iI", badFD},
	{"fd_filestat_set_times", "iIIi", badFD},
	{"fd_pread", "iiiIi", badFD},
	{"fd_prestat_get", "ii", badFD},
	{"fd_prestat_dir_name", "iii", badFD},
	{"fd_pwrite", "iiiIi", badFD},
	{"fd_read", "iiii", fdRead},
	{"fd_readdir", "iiiIi", badFD},
	{"fd_renumber", "ii", badFD},
	{"fd_seek", "iIii", onStdio(always(errSeek))},
	{"fd_sync", "i", badFD},
	{"fd_tell", "ii", onStdio(always(errSeek))},
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
	{"proc_raise", "i", always(errNoSys)},
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

// Funcs returns WASI's functions for an engine to offer. callOf finds the state of
// the call that a function is called in.
func Funcs(callOf func(context.Context) *Call) []engine.Func {
	funcs := make([]engine.Func, 0, len(table))
	for _, entry := range &table {
		handle := entry.handle
		if s, ok := socketFuncs[entry.name]; ok {
			handle = s.orElse(handle)
		}
		f := engine.Func{Module: Module, Name: entry.name, Results: []engine.ValueType{engine.I32}}
		for _, p := range entry.params {
			t := engine.I32
			if p == 'I' {
				t = engine.I64
			}
			f.Params = append(f.Params, t)
		}
		if entry.name == "proc_exit" {
			f.Results = nil
		}
		f.Call = func(ctx context.Context, memory []byte, stack []uint64) {
			c := callOf(ctx)
			c.Host.CountCalls(1)
			if e := handle(c, memory, stack); len(stack) > 0 {
				stack[0] = uint64(e)
			}
		}
		funcs = append(funcs, f)
	}
	return funcs
}

// slice returns the n bytes of memory at ptr, nil when they are not all there.
func slice(memory []byte, ptr uint64, n int) []byte {
	p := uint64(uint32(ptr))
	if p+uint64(n) > uint64(len(memory)) {
		return nil
	}
	return memory[p : p+uint64(n)]
}

func put32(memory []byte, ptr uint64, v uint32) errno {
	b := slice(memory, ptr, 4)
	if b == nil {
		return errFault
	}
	binary.LittleEndian.PutUint32(b, v)
	return success
}

func put64(memory []byte, ptr uint64, v uint64) errno {
	b := slice(memory, ptr, 8)
	if b == nil {
		return errFault
	}
	binary.LittleEndian.PutUint64(b, v)
	return success
}

// maxVectors bounds how many vectors one call may name.
const maxVectors = 1024

// vectors returns the parts of memory that count vectors at ptr name.
func vectors(memory []byte, ptr, count uint64) ([][]byte, errno) {
	n := uint32(count)
	if n > maxVectors {
		return nil, errInvalid
	}
	list := slice(memory, ptr, int(n)*8)
	if list == nil {
		return nil, errFault
	}
	parts := make([][]byte, 0, n)
	for ; len(list) > 0; list = list[8:] {
		part := slice(memory, uint64(binary.LittleEndian.Uint32(list)), int(binary.LittleEndian.Uint32(list[4:])))
		if part == nil {
			return nil, errFault
		}
		parts = append(parts, part)
	}
	return parts, success
}

// always returns the handler of a function that has only one answer.
func always(e errno) handler { return func(*Call, []byte, []uint64) errno { return e } }

var badFD = always(errBadFD)

func emptySizes(_ *Call, memory []byte, args []uint64) errno {
	if e := put32(memory, args[0], 0); e != success {
		return e
	}
	return put32(memory, args[1], 0)
}

func exit(c *Call, _ []byte, args []uint64) errno {
	c.Host.Stop(ExitCode(uint32(args[0])))
	return success
}

// yield lets others run, which is not the guest's computing.
func yield(c *Call, _ []byte, _ []uint64) errno {
	c.Host.Uncharged(runtime.Gosched)
	return success
}

func random(c *Call, memory []byte, args []uint64) errno {
	n := uint32(args[1])
	c.Host.CountCalls(int(n >> 12)) // so that a great many bytes cost what as many calls do
	b := slice(memory, args[0], int(n))
	if b == nil {
		return errFault
	}
	c.Host.Random(b)
	return success
}

// WASI's clocks. Beyond these two there are those of processor time, which tell
// the monotonic time here.
const (
	clockRealtime = 0
	clockMax      = 3
)

func clockRes(_ *Call, memory []byte, args []uint64) errno {
	if uint32(args[0]) > clockMax {
		return errInvalid
	}
	return put64(memory, args[1], 1)
}

func clockTime(c *Call, memory []byte, args []uint64) errno {
	if uint32(args[0]) > clockMax {
		return errInvalid
	}
	return put64(memory, args[2], c.Host.Clock(uint32(args[0]) == clockRealtime))
}
