// Command edge runs the parts of Partner Edge: the origin, a regional node, or
// both in one process to develop against.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"partneredge/edge/command"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	code := command.Main(ctx, version, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
