// Leads answers for partner lead intake, as a module.
package main

import (
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/leads"
)

func init() { guest.Serve(leads.Handle) }

func main() {}
