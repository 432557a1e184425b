package harness

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
)

// Child is a process that runs the bench's own program with other arguments. It works
// until In ends, and so ends with the bench, however that ends.
type Child struct {
	*exec.Cmd
	In  io.WriteCloser
	Out io.Reader
}

// OnOrder calls run in place of what Main is given, in a process of StartChild: with the
// order, the standard input and the standard output.
func OnOrder[T any](b *Bench, run func(ctx context.Context, order T, in io.Reader, out io.Writer) error) {
	b.Flags.Func("child", "an order for a process of its own (used by the bench itself)", func(text string) error {
		var order T
		b.ordered = func(ctx context.Context) error { return run(ctx, order, os.Stdin, os.Stdout) }
		return json.Unmarshal([]byte(text), &order)
	})
}

// StartChild runs the bench's own program with the flag -child and an order, as JSON, in a
// process of its own. Its standard error is the bench's.
func StartChild(ctx context.Context, order any) (c *Child, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	c = &Child{Cmd: exec.CommandContext(ctx, self, "-child", string(text))}
	c.Stderr = os.Stderr
	if c.In, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	if c.Out, err = c.StdoutPipe(); err != nil {
		return nil, err
	}
	return c, c.Start()
}

// Stop ends the child's input and waits until the child has ended. What it still prints
// is not read.
func (c *Child) Stop() error { return errors.Join(c.In.Close(), c.Wait()) }
