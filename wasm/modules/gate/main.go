// Gate is the request pipeline as a module.
package main

import (
	"partneredge/wasm/guest"
	"partneredge/wasm/pipeline"
)

func init() { guest.Serve(pipeline.Handle) }

func main() {}
