// Gate is the request pipeline as a module.
package main

import (
	"partneredge/wasm/guest"
	"partneredge/wasm/pipeline"
	"partneredge/wasm/route"
)

// The release's routes are read here, before the host takes the module's image. A
// gate without them must not open.
func init() {
	routes, err := guest.Host{}.Routes()
	if err != nil {
		panic("read routes: " + err.Error())
	}
	table, err := route.New(routes)
	if err != nil {
		panic("make route table: " + err.Error())
	}
	guest.Serve(pipeline.Pipeline{Routes: table}.Handle)
}

func main() {}
