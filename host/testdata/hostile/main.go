// Hostile is a module that tries to leave something for the next request, to
// take more than its share, or to break the host. The path names the attack;
// /honest answers with all that an earlier request could have left behind.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
)

// What attacks write to.
var (
	counter int
	secret  string
	kept    [][]byte
	table   = map[string]string{}
	ch      = make(chan int, 1000)
	fired   int
	hook    func() string
	input   = &initial
	initial int
)

func init() { guest.Handle(handle) }

func main() {}

func handle(req *abi.Request, resp *abi.Response) {
	resp.Status = 200
	if req.Path == "/honest" {
		honest(resp)
		return
	}
	attacks[req.Path](req, resp)
}

func honest(resp *abi.Response) {
	hooked := ""
	if hook != nil {
		hooked = hook()
	}
	runtime.Gosched() // lets what is left of goroutines run
	resp.Body = fmt.Appendf(resp.Body, "counter %d secret %q kept %d table %d channel %d fired %d hook %q initial %d goroutines %d env %v dir %v",
		counter, secret, len(kept), len(table), len(ch), fired, hooked, *input, runtime.NumGoroutine(), os.Environ(), exists("/tmp"))
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

var attacks = map[string]func(*abi.Request, *abi.Response){
	// Keeping state.
	"/memory": func(req *abi.Request, _ *abi.Response) {
		counter++
		secret = strings.Clone(string(req.Body))
		table[secret] = secret
		initial = 7
		hook = func() string { return secret }
		// All of the stack's and the heap's neighbourhood, and far away.
		p := unsafe.Slice((*byte)(unsafe.Pointer(&scribble)), len(scribble))
		for i := range p {
			p[i] = byte(i)
		}
	},
	"/heap": func(req *abi.Request, _ *abi.Response) {
		for range 100 {
			kept = append(kept, make([]byte, 1024))
		}
	},
	"/goroutines": func(*abi.Request, *abi.Response) {
		for range 50 {
			go func() {
				for {
					ch <- 1
					counter++
					runtime.Gosched()
				}
			}()
		}
		runtime.Gosched()
	},
	"/timers": func(*abi.Request, *abi.Response) {
		for range 50 {
			time.AfterFunc(time.Microsecond, func() { fired++ })
		}
		time.Sleep(time.Millisecond)
	},
	"/descriptors": func(_ *abi.Request, resp *abi.Response) {
		for i := range 64 {
			if f, err := os.OpenFile(fmt.Sprint("/tmp/left", i), os.O_CREATE|os.O_RDWR, 0o644); err == nil {
				fmt.Fprint(f, "left")
				resp.Status = 500
			}
		}
		_ = os.Stdout.Close()
		_ = os.Stderr.Close()
		_ = os.Mkdir("/tmp/left", 0o755)
	},
	"/environment": func(*abi.Request, *abi.Response) { _ = os.Setenv("LEFT", "behind") },
	"/finalizers": func(*abi.Request, *abi.Response) {
		for range 100 {
			p := new([64]byte)
			runtime.SetFinalizer(p, func(*[64]byte) { counter++ })
		}
		runtime.GC()
	},

	// Taking more than its share.
	"/spin": func(*abi.Request, *abi.Response) {
		for {
			counter++
		}
	},
	"/spin-goroutines": func(*abi.Request, *abi.Response) {
		for range 10 {
			go func() {
				for {
					counter++
				}
			}()
		}
		select {}
	},
	"/recurse": func(*abi.Request, *abi.Response) { counter = recurse(0) },
	"/allocate": func(*abi.Request, *abi.Response) {
		for {
			kept = append(kept, make([]byte, 1<<20))
		}
	},
	"/grow":         func(*abi.Request, *abi.Response) { kept = append(kept, make([]byte, 16<<20)) },
	"/sleep":        func(*abi.Request, *abi.Response) { time.Sleep(time.Hour) },
	"/deadlock":     func(*abi.Request, *abi.Response) { select {} },
	"/flood-log":    func(*abi.Request, *abi.Response) { flood(func(s string) { guest.Log(0, s) }) },
	"/flood-stderr": func(*abi.Request, *abi.Response) { flood(func(s string) { fmt.Fprintln(os.Stderr, s) }) },
	"/flood-line":   func(*abi.Request, *abi.Response) { flood(func(s string) { fmt.Fprint(os.Stdout, s) }) },
	"/flood-host": func(*abi.Request, *abi.Response) {
		for {
			_, _ = guest.Host{}.Lockout("192.0.2.1")
		}
	},
	"/big": func(_ *abi.Request, resp *abi.Response) { resp.Body = make([]byte, 2<<20) },

	// Ending badly.
	"/exit":  func(*abi.Request, *abi.Response) { os.Exit(3) },
	"/exit0": func(*abi.Request, *abi.Response) { os.Exit(0) },
	"/panic": func(*abi.Request, *abi.Response) { panic("hostile") },
	"/nil":   func(*abi.Request, *abi.Response) { counter = *(*int)(nil) },
	"/wild": func(*abi.Request, *abi.Response) {
		*(*int)(unsafe.Pointer(uintptr(0xfffffff0))) = 1
	},
	// Writes over all of its own memory, runtime and all.
	"/raze": func(*abi.Request, *abi.Response) {
		for at := uintptr(4096); ; at += 4096 {
			*(*byte)(unsafe.Pointer(at)) = 0xee
		}
	},
}

var scribble [256 << 10]byte

func flood(write func(string)) {
	s := strings.Repeat("flood ", 100)
	for {
		write(s)
	}
}

func recurse(n int) int {
	var frame [64]int
	frame[n%64] = n
	return recurse(n+1) + frame[(n+1)%64]
}
