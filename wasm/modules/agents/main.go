// Agents answers for agents/me, as a module.
package main

import (
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/agents"
)

func init() { guest.Serve(agents.Handle) }

func main() {}
