// Sentinels answers for sentinels/firings, as a module.
package main

import (
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/sentinels"
)

func init() { guest.Serve(sentinels.Handle) }

func main() {}
