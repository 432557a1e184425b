//go:build unix

package service

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"partneredge/edge/closers"
)

// TestLogThatNobodyReads: a service stops in good order though whoever read its log ended
// first, as after Ctrl-C, which ends what is behind a pipe as well.
func TestLogThatNobodyReads(t *testing.T) {
	const variable = "EDGE_TEST_SERVICE"
	if dir := os.Getenv(variable); dir != "" { // this is the service
		ctx, stop := context.WithCancel(t.Context())
		stop()
		err := Run(ctx, Config{Dir: dir, File: "node.json", Stdout: io.Discard}, func(started *closers.Stack) (any, string, error) {
			started.Add(func(context.Context) error {
				if _, err := fmt.Fprintln(os.Stderr, "stopping"); err == nil {
					t.Error("somebody reads the log")
				}
				return os.WriteFile(filepath.Join(dir, "stopped"), nil, 0o600)
			})
			return "here", "", nil
		})
		if err != nil {
			t.Error(err)
		}
		return
	}
	dir := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+dir)
	cmd.Stdout, cmd.Stderr = &said, w
	if err := cmd.Run(); err != nil {
		t.Errorf("the service: %v\n%s", err, &said)
	}
	if _, err := os.Stat(filepath.Join(dir, "stopped")); err != nil {
		t.Errorf("it did not stop in good order: %v", err)
	}
}
