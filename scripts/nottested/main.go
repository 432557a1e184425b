// Nottested lists the tests that were skipped, and why, from the files of
// `go test -json` (gotestsum --jsonfile).
//
//	go run ./scripts/nottested FILE…
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nottested:", err)
		os.Exit(1)
	}
}

func run(files []string, out io.Writer) error {
	if len(files) == 0 {
		return errors.New("usage: nottested FILE…")
	}
	found := 0
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		n, err := list(f, out)
		f.Close()
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		found += n
	}
	if found == 0 {
		_, err := fmt.Fprintln(out, "every test was run")
		return err
	}
	return nil
}

// An event of test2json; go doc test2json lists its fields.
type event struct{ Action, Package, Test, Output string }

// A reason is printed by testing.T.Skip as "    file.go:12: reason".
var reason = regexp.MustCompile(`^\s*\S+\.go:\d+: (?:NOT TESTED:? ?)?(.*)`)

// list prints the skipped tests of one file and returns their number.
func list(in io.Reader, out io.Writer) (found int, err error) {
	said := map[[2]string]string{}
	for decoder := json.NewDecoder(in); ; {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return found, err
		}
		test := [2]string{e.Package, e.Test}
		switch {
		case e.Test == "":
		case e.Action == "output":
			if m := reason.FindStringSubmatch(e.Output); m != nil {
				said[test] = m[1]
			}
		case e.Action == "skip":
			found++
			_, pkg, _ := strings.Cut(e.Package, "/")
			if _, err := fmt.Fprintf(out, "NOT TESTED: %s in %s: %s\n", e.Test, pkg, said[test]); err != nil {
				return found, err
			}
		}
	}
}
