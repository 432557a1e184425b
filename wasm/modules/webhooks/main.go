// Webhooks answers for webhook subscriptions, as a module.
package main

import (
	"partneredge/wasm/guest"
	"partneredge/wasm/handlers/webhooks"
)

func init() { guest.Serve(webhooks.Handle) }

func main() {}
