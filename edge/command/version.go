package command

import (
	"context"
	"fmt"
	"io"
	"runtime"
)

// version is set by the linker.
var version = "dev"

func runVersion(_ context.Context, args []string, stdout, stderr io.Writer) error {
	f := newFlags("version", "edge version", stderr)
	if err := f.parse(args); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "edge %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
