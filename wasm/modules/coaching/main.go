// Coaching answers for coaching/insights, as a module.
package main

import (
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/coaching"
)

func init() { guest.Serve(coaching.Handle) }

func main() {}
