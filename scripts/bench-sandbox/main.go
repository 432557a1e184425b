// Bench-sandbox measures what a sandbox costs and prints a line "figure NAME
// VALUE UNIT" for each figure. It takes about a minute. Run it from the
// project's root.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	// The figures compare a sandbox with one that lacks some of its safety, so
	// they are taken where that can be reached: in the host's own benchmarks.
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkFigures$", "-benchtime", "1x", "-timeout", "3m", "./host")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-sandbox: measure:", err)
		os.Exit(1)
	}
}
