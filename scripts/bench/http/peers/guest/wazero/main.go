// Wazero is the guest for a host that is wazero and nothing else: it speaks the frames
// of package abi, and asks its host for nothing.
package main

import (
	api "partneredge/wasm/guest"

	"partneredge/scripts/bench/http/peers/guest"
)

func init() { api.Handle(guest.New().Handle) }

func main() {}
