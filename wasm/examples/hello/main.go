// Hello greets whoever the path names: the smallest module there is.
package main

import (
	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
	"partneredge/wasm/guest"
)

func init() { guest.Handle(handle) }

func main() {}

func handle(req *abi.Request, resp *abi.Response) {
	resp.Status = 200
	resp.Body = append(resp.Body, `{"hello":`...)
	resp.Body = append(answer.AppendString(resp.Body, req.Param("who")), '}')
}
