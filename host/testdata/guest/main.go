// Guest is a module for the host's own tests: it does what the path names, such as
// answering with the request that it was given.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/guest"
)

var served int // how many requests this sandbox has seen

func init() { guest.Handle(handle) }

func handle(req *abi.Request, resp *abi.Response) {
	resp.Status = 200
	served++
	switch req.Path {
	case "/echo":
		resp.Headers = append(resp.Headers, abi.Header{Name: "x-client", Value: req.Client})
		resp.Body = fmt.Appendf(resp.Body, "%s %s?%s %d %x %v %s", req.Method, req.Path, req.Query,
			req.Now, req.Random[:4], req.Headers, req.Body)
	case "/served":
		resp.Body = fmt.Append(resp.Body, served)
	case "/random":
		var b [16]byte
		_, _ = rand.Read(b[:])
		resp.Body = append(resp.Body, hex.EncodeToString(b[:])...)
	case "/clock":
		resp.Body = time.Now().UTC().AppendFormat(resp.Body, time.RFC3339Nano)
	case "/sleep":
		start := time.Now()
		tick := time.After(20 * time.Millisecond)
		<-tick
		resp.Body = fmt.Append(resp.Body, time.Since(start) >= 0)
	case "/sleep-on":
		<-time.After(time.Hour)
	case "/environment":
		resp.Body = fmt.Append(resp.Body, len(os.Args), len(os.Environ()))
	case "/profile", "/profile-or-none":
		p, err := (guest.Host{}).Profile()
		if err != nil {
			if req.Path == "/profile" {
				resp.Status = 500
			}
			resp.Body = append(resp.Body, err.Error()...)
			return
		}
		resp.Body = append(resp.Body, p.FullName...)
	default:
		resp.Status = 404
	}
}

func main() {}
