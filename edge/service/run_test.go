package service

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/closers"
)

// inBubble runs fn in a bubble of synctest. What the runtime starts once, when a process first
// asks for a signal, must be outside.
func inBubble(t *testing.T, fn func(*testing.T)) {
	t.Helper()
	SurviveBrokenPipes()()
	synctest.Test(t, fn)
}

// TestFileThatCannotBeWritten: a service whose file finds no place, as on a full disk, runs
// all the same and writes it once it can; without a log it ends.
func TestFileThatCannotBeWritten(t *testing.T) {
	for _, logs := range []bool{true, false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "node.json")
		if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		inBubble(t, func(t *testing.T) {
			var stdout, log bytes.Buffer
			c := Config{Dir: dir, File: "node.json", Stdout: &stdout}
			if logs {
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() {
				ended <- Run(ctx, c, func(*closers.Stack) (any, string, error) { return "here", "up", nil })
			}()
			time.Sleep(writeAgain + 1)
			synctest.Wait()
			if !logs {
				if err := <-ended; err == nil {
					t.Error("a service without a log ended without an error")
				}
				return
			}
			if stdout.String() != "up" || bytes.Count(log.Bytes(), []byte("\n")) != 1 {
				t.Errorf("printed %q and logged %q", &stdout, &log)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			time.Sleep(writeAgain)
			synctest.Wait()
			if text, err := os.ReadFile(path); err != nil || string(text) != "\"here\"\n" {
				t.Errorf("the file has %q (%v)", text, err)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("the file is left: %v", err)
			}
		})
	}
}

// TestDrainHasItsTime: what drains for a while has the whole time to stop behind it.
func TestDrainHasItsTime(t *testing.T) {
	dir := t.TempDir()
	inBubble(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		var left time.Duration
		err := Run(ctx, Config{Dir: dir, File: "node.json", Stdout: io.Discard, Drain: time.Minute}, func(started *closers.Stack) (any, string, error) {
			started.Add(func(ctx context.Context) error {
				until, _ := ctx.Deadline()
				left = time.Until(until)
				return nil
			})
			return "here", "up", nil
		})
		if err != nil || left != time.Minute+StopTime {
			t.Errorf("it had %s to stop, %v", left, err)
		}
	})
}
