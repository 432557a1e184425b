// Dialer is a module that connects to where a request's body says, in the ways
// that its path names, and answers with the outcome.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/stealthrocket/net/wasip1"

	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
)

func init() { guest.Handle(handle) }

func main() {}

// kept is a connection that an attack leaves for the next request.
var kept net.Conn

func handle(req *abi.Request, resp *abi.Response) {
	resp.Status = 200
	way, ok := ways[req.Path]
	if !ok {
		resp.Status = 404
		return
	}
	text, err := way(string(req.Body))
	if err != nil {
		text = "error: " + err.Error()
	}
	resp.Body = append(resp.Body, text...)
}

var ways = map[string]func(to string) (string, error){
	"/": func(string) (string, error) { return "nothing to do", nil },
	// Says hello and answers with what comes back until the other side closes.
	"/hello": func(to string) (string, error) {
		conn, err := wasip1.Dial("tcp", to)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "hello"); err != nil {
			return "", err
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			return "", err
		}
		answer, err := io.ReadAll(conn)
		if conn.RemoteAddr().String() == "" || conn.LocalAddr().(*net.TCPAddr).Port == 0 {
			return "", fmt.Errorf("connection from %v to %v", conn.LocalAddr(), conn.RemoteAddr())
		}
		return string(answer), err
	},
	// Dials ten times, whatever comes of it.
	"/again": func(to string) (string, error) {
		var all error
		for range 10 {
			conn, err := wasip1.Dial("tcp", to)
			if err == nil {
				err = conn.Close()
			}
			all = errors.Join(all, err)
		}
		return "dialled", all
	},
	// Two connections at once, of which the one that answers first counts.
	"/race": func(to string) (string, error) {
		answers := make(chan string, 2)
		for _, one := range strings.Fields(to) {
			go func() {
				conn, err := wasip1.Dial("tcp", one)
				if err != nil {
					answers <- err.Error()
					return
				}
				b := make([]byte, 16)
				n, _ := conn.Read(b)
				answers <- string(b[:n])
			}()
		}
		return <-answers, nil
	},
	// Gives up by itself.
	"/patience": func(to string) (string, error) {
		conn, err := wasip1.Dial("tcp", to)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
			return "", err
		}
		_, err = conn.Read(make([]byte, 1))
		return "", err
	},
	// Keeps the connection for the next request.
	"/keep": func(to string) (text string, err error) {
		kept, err = wasip1.Dial("tcp", to)
		return "kept", err
	},
	"/kept": func(string) (string, error) {
		if kept != nil {
			return "there is a connection", nil
		}
		for fd := range int32(100) { // another's, perhaps
			if fd > 2 {
				if n, errno := write(fd, "stolen"); errno != syscall.EBADF {
					return "", fmt.Errorf("descriptor %d: wrote %d: %w", fd, n, errno)
				}
			}
		}
		return "nothing", nil
	},
	"/listen": func(to string) (string, error) {
		_, err := wasip1.Listen("tcp", to)
		return "listening", err
	},
	"/udp": func(to string) (string, error) {
		_, err := wasip1.Dial("udp", to)
		return "connected", err
	},
	// Asks a name server of its own choice.
	"/resolver": func(to string) (string, error) {
		resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return wasip1.DialContext(ctx, network, to)
		}}
		addrs, err := resolver.LookupHost(context.Background(), "example.com")
		return fmt.Sprint(addrs), err
	},
	// Connects to an address as it is, without a resolver's help.
	"/raw": func(to string) (string, error) {
		addr := netip.MustParseAddrPort(to)
		_, errno := connect(addr)
		if errno != 0 {
			return "", errno
		}
		return "connected", nil
	},
	// As a program without goroutines would: every call waits.
	"/waiting": func(to string) (string, error) {
		fd, errno := connect(netip.MustParseAddrPort(to))
		if errno != 0 {
			return "", errno
		}
		if _, errno := send(fd, "hello"); errno != 0 {
			return "", errno
		}
		if errno := sock_shutdown(fd, 2); errno != 0 {
			return "", errno
		}
		var all []byte
		for {
			b := make([]byte, 16)
			n, errno := recv(fd, b)
			if errno != 0 {
				return "", errno
			}
			if n == 0 {
				return string(all), nil
			}
			all = append(all, b[:n]...)
		}
	},
	// Opens thousands.
	"/many": func(string) (string, error) {
		for n := 0; ; n++ {
			var fd int32
			if errno := sock_open(1, 2, unsafe.Pointer(&fd)); errno != 0 {
				return fmt.Sprint(n, " sockets, then ", errno), nil
			}
		}
	},
	// Opens thousands, one after the other.
	"/churn": func(string) (string, error) {
		for n := 0; ; n++ {
			var fd int32
			if errno := sock_open(1, 2, unsafe.Pointer(&fd)); errno != 0 {
				return fmt.Sprint(n, " sockets, then ", errno), nil
			}
			if err := syscall.Close(int(fd)); err != nil {
				return "", err
			}
		}
	},
	// Never tires of asking.
	"/stubborn": func(string) (string, error) {
		for {
			var fd int32
			_ = sock_open(1, 2, unsafe.Pointer(&fd))
		}
	},
	// Reads all there is.
	"/greedy": func(to string) (string, error) {
		conn, err := wasip1.Dial("tcp", to)
		if err != nil {
			return "", err
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, conn, make([]byte, 64<<10))
		return fmt.Sprint(n, " bytes"), err
	},
	// Names addresses outside its memory.
	"/wild": func(string) (string, error) {
		var fd int32
		bad := unsafe.Add(unsafe.Pointer(nil), 0xfffffff0)
		if errno := sock_open(1, 2, bad); errno != syscall.EFAULT {
			return "", fmt.Errorf("sock_open: %w", errno)
		}
		if errno := sock_open(1, 2, unsafe.Pointer(&fd)); errno != 0 {
			return "", errno
		}
		ok := unsafe.Pointer(&fd)
		for i, errno := range []syscall.Errno{
			sock_connect(fd, bad, 80), sock_recv(fd, bad, 1, 0, ok, ok), sock_send(fd, bad, 1, 0, ok),
			sock_getsockopt(fd, 0, 2, bad, 4), sock_getaddrinfo(bad, 8, ok, 1, ok, ok, 1, ok),
			sock_getaddrinfo(ok, 1, ok, 1, bad, ok, 1, ok),
		} {
			if errno != syscall.EFAULT {
				return "", fmt.Errorf("call %d: %w", i, errno)
			}
		}
		return "refused", nil
	},
}

// connect connects a socket that waits.
func connect(addr netip.AddrPort) (fd int32, errno syscall.Errno) {
	family := int32(1)
	if addr.Addr().Is6() {
		family = 2
	}
	if errno := sock_open(family, 2, unsafe.Pointer(&fd)); errno != 0 {
		return 0, errno
	}
	ip := addr.Addr().AsSlice()
	var at [8]byte
	binary.LittleEndian.PutUint32(at[:], uint32(uintptr(unsafe.Pointer(&ip[0]))))
	binary.LittleEndian.PutUint32(at[4:], uint32(len(ip)))
	return fd, sock_connect(fd, unsafe.Pointer(&at), uint32(addr.Port()))
}

// vector names b.
func vector(b []byte) *[8]byte {
	var v [8]byte
	binary.LittleEndian.PutUint32(v[:], uint32(uintptr(unsafe.Pointer(&b[0]))))
	binary.LittleEndian.PutUint32(v[4:], uint32(len(b)))
	return &v
}

func write(fd int32, s string) (n uint32, errno syscall.Errno) {
	errno = fd_write(fd, unsafe.Pointer(vector([]byte(s))), 1, unsafe.Pointer(&n))
	return n, errno
}

func send(fd int32, s string) (n uint32, errno syscall.Errno) {
	errno = sock_send(fd, unsafe.Pointer(vector([]byte(s))), 1, 0, unsafe.Pointer(&n))
	return n, errno
}

func recv(fd int32, b []byte) (n uint32, errno syscall.Errno) {
	var flags uint16
	errno = sock_recv(fd, unsafe.Pointer(vector(b)), 1, 0, unsafe.Pointer(&n), unsafe.Pointer(&flags))
	return n, errno
}

//go:wasmimport wasi_snapshot_preview1 fd_write
//go:noescape
func fd_write(fd int32, vectors unsafe.Pointer, count uint32, n unsafe.Pointer) syscall.Errno

//go:wasmimport wasi_snapshot_preview1 sock_open
//go:noescape
func sock_open(family, kind int32, fd unsafe.Pointer) syscall.Errno

//go:wasmimport wasi_snapshot_preview1 sock_connect
//go:noescape
func sock_connect(fd int32, addr unsafe.Pointer, port uint32) syscall.Errno

//go:wasmimport wasi_snapshot_preview1 sock_send
//go:noescape
func sock_send(fd int32, vectors unsafe.Pointer, count, flags uint32, n unsafe.Pointer) syscall.Errno

//go:wasmimport wasi_snapshot_preview1 sock_recv
//go:noescape
func sock_recv(fd int32, vectors unsafe.Pointer, count, flags uint32, n, told unsafe.Pointer) syscall.Errno

//go:wasmimport wasi_snapshot_preview1 sock_shutdown
func sock_shutdown(fd, how int32) syscall.Errno

//go:wasmimport wasi_snapshot_preview1 sock_getsockopt
//go:noescape
func sock_getsockopt(fd int32, level, name uint32, value unsafe.Pointer, size uint32) syscall.Errno

//go:wasmimport wasi_snapshot_preview1 sock_getaddrinfo
//go:noescape
func sock_getaddrinfo(node unsafe.Pointer, nodeLen uint32, service unsafe.Pointer, serviceLen uint32, hints, list unsafe.Pointer, most uint32, n unsafe.Pointer) syscall.Errno
