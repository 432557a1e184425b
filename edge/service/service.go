// Package service runs a part of the program as a service over a data directory: it locks
// the directory, keeps a file in it that says where the service answers while it runs,
// tells systemd that it is ready, and ends what was started.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"partneredge/edge/closers"
	"partneredge/edge/hint"
	"partneredge/store/durable"
)

// StopTime bounds the work that is under way when the process gets a signal to
// stop.
const StopTime = 15 * time.Second

// writeAgain separates two tries to write the file of a service that is up.
const writeAgain = 10 * time.Second

// Config of a service. Every field but Log and Drain is required.
type Config struct {
	Dir    string // of its data
	File   string // in Dir while the service is up, to say where it answers
	Stdout io.Writer
	// Log says when File cannot be written, as on a full disk: the service runs all the
	// same, and tries again. nil: it ends.
	Log *slog.Logger
	// Drain is how much longer than StopTime the stop may take. 0: no longer.
	Drain time.Duration
}

// Run runs a service over a data directory until ctx ends. start adds what it
// started to the stack; it returns the content of the file and what to print once the
// service is up.
func Run(ctx context.Context, c Config, start func(*closers.Stack) (ready any, greeting string, err error)) (err error) {
	defer SurviveBrokenPipes()() // whoever reads the log may end first
	unlock, err := Lock(c.Dir, c.File)
	if err != nil {
		return err
	}
	defer unlock()
	var started closers.Stack
	defer func() {
		if stopErr := stop(ctx, &started, StopTime+c.Drain); err == nil { // why it was not started matters more
			err = stopErr
		}
	}()
	ready, greeting, err := start(&started)
	if err != nil {
		return err
	}
	path := filepath.Join(c.Dir, c.File)
	defer os.Remove(path)
	unwritten := durable.WriteJSON(path, ready)
	switch {
	case unwritten != nil && c.Log == nil:
		return fmt.Errorf("writing %s: %w", path, unwritten)
	case unwritten != nil:
		c.Log.Error("commands that are given --data alone do not find this process yet", "file", path, "err", unwritten)
	}
	if err := notifyReady(os.Getenv("NOTIFY_SOCKET")); err != nil {
		return err
	}
	fmt.Fprint(c.Stdout, greeting)
	for unwritten != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(writeAgain):
			unwritten = durable.WriteJSON(path, ready)
		}
	}
	<-ctx.Done()
	return nil
}

// SurviveBrokenPipes lets the process go on, until the function that it returns is called, when
// it writes to a standard output or error that nobody reads any more: the write fails, where
// it would end the process.
func SurviveBrokenPipes() (restore func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// notifyReady sends "READY=1" to systemd's socket (sd_notify(3)): the process can do its
// work. Without a socket, "", it sends nothing.
func notifyReady(socket string) error {
	if socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return fmt.Errorf("telling systemd that all is ready: %w", err)
	}
	_, err = io.WriteString(conn, "READY=1")
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("telling systemd that all is ready: %w", err)
	}
	return nil
}

// Stop ends what has been started. Work under way has StopTime to finish, even
// when ctx is done.
func Stop(ctx context.Context, started *closers.Stack) error { return stop(ctx, started, StopTime) }

func stop(ctx context.Context, started *closers.Stack, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	return started.Close(ctx)
}

// Lock makes a data directory, where it is missing, and locks it: two
// processes over the same files would damage them. It removes the files that a
// process keeps only while it is up, in case one was killed.
func Lock(dir string, transient ...string) (unlock func(), err error) {
	unlock, err = durable.Lock(dir)
	switch {
	case errors.Is(err, durable.ErrLocked):
		return nil, hint.Add(fmt.Errorf("the data directory %w", err), "stop that one, or give --data another directory")
	case err != nil:
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	for _, name := range transient {
		_ = os.Remove(filepath.Join(dir, name))
	}
	return unlock, nil
}
