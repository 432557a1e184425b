package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"partneredge/wasm/sandboxctl"
)

// streams are a sandbox program's standard descriptors, and the goroutines beside it:
// those that copy from them, or those that control it over HTTP.
type streams struct {
	stdin, stdout, stderr *os.File
	commands              io.Writer // to stdin; nil: it is not a pipe of this process
	answers               io.Reader // of stdout; nil: they are copied
	opened                []*os.File
	written               []*os.File // ends of pipes, which the goroutines must see closed
	beside                sync.WaitGroup
	stop                  context.CancelFunc // ends the control; nil without
}

// overHTTP reports whether commands come over HTTP.
func (c *Config) overHTTP() bool { return c.Control != "" && c.Control != OnStdin }

func (c *Config) streams() (*streams, error) {
	s := &streams{stdin: c.Stdin}
	err := s.open(c)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *streams) open(c *Config) (err error) {
	switch {
	case c.Control == "":
		if s.stdin, err = os.Open(os.DevNull); err != nil {
			return err
		}
		s.opened = append(s.opened, s.stdin)
	case c.overHTTP():
		var in, out *os.File
		if s.stdin, in, err = os.Pipe(); err != nil {
			return err
		}
		s.opened, s.written, s.commands = append(s.opened, s.stdin), append(s.written, in), in
		if out, s.stdout, err = os.Pipe(); err != nil {
			return err
		}
		s.opened, s.written, s.answers = append(s.opened, out), append(s.written, s.stdout), out
	}
	if s.stdout == nil {
		s.stdout, err = s.pipe(c.Stdout)
	}
	if err == nil {
		s.stderr, err = s.pipe(c.Stderr)
	}
	return err
}

// pipe returns a file, and copies what is written to it to w.
func (s *streams) pipe(w io.Writer) (*os.File, error) {
	r, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.opened, s.written = append(s.opened, r), append(s.written, out)
	s.beside.Go(func() { _, _ = io.Copy(w, r) })
	return out, nil
}

// close waits until all that was written is copied. The program must have ended.
func (s *streams) close() {
	if s.stop != nil {
		s.stop()
	}
	for _, f := range s.written {
		_ = f.Close()
	}
	s.beside.Wait()
	for _, f := range s.opened {
		_ = f.Close()
	}
}

// controlFailure is why the control ended the sandbox.
type controlFailure struct{ error }

// failureOf returns why a context that startControl returned ended, nil if it did not
// fail.
func failureOf(ctx context.Context) error {
	if failed, ok := errors.AsType[controlFailure](context.Cause(ctx)); ok {
		return failed.error
	}
	return nil
}

// startControl serves commands over HTTP beside the program that is about to run over
// the streams. The context that it returns ends with ctx, or when it fails.
func (c *Config) startControl(ctx context.Context, s *streams) (context.Context, error) {
	listener, err := listenControl(c.Control)
	if err != nil {
		return ctx, err
	}
	running, fail := context.WithCancelCause(ctx)
	s.stop = func() { fail(nil) }
	s.beside.Go(func() {
		defer listener.Close()
		if err := c.serveControl(running, &control{listener: listener}, s); err != nil {
			fail(controlFailure{err})
		}
	})
	return running, nil
}

// serveControl greets once the program is up, and serves until ctx ends.
func (c *Config) serveControl(ctx context.Context, face *control, s *streams) (err error) {
	out := bufio.NewReader(s.answers)
	if face.hello, err = readHello(out); err != nil {
		return nil // the program has ended, and says why itself
	}
	face.commands = sandboxctl.NewClient(s.commands, out)
	if c.Forward != "" {
		face.forwarder = newForwarder(ctx, c.Forward, c.Retries, face.commands, c.Stderr)
		defer face.forwarder.wait()
	}
	if face.exposed() {
		fmt.Fprintf(c.Stderr, "whoever reaches %s controls this sandbox: it asks for no key\n", face.url())
	}
	face.greet(c.Stdout)
	return face.serve(ctx)
}
