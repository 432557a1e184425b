// Package service runs a part of the program as a service over a data directory: it
// locks the directory, has a file in it that says where the service answers for as long
// as it does, tells systemd, and ends what was started.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"partneredge/edge/closers"
	"partneredge/edge/hint"
	"partneredge/store/durable"
)

// StopTime bounds the work that is under way when the process gets a signal to
// stop.
const StopTime = 15 * time.Second

// Run runs a service over a data directory until ctx ends. start adds what it
// started to the stack; it returns the content of file, which is in the directory
// while the service is up, and what to print then.
func Run(ctx context.Context, dir, file string, stdout io.Writer, start func(*closers.Stack) (ready any, greeting string, err error)) (err error) {
	unlock, err := Lock(dir, file)
	if err != nil {
		return err
	}
	defer unlock()
	var started closers.Stack
	defer func() {
		if stopErr := Stop(ctx, &started); err == nil { // why it was not started matters more
			err = stopErr
		}
	}()
	ready, greeting, err := start(&started)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, file)
	defer os.Remove(path)
	if err := durable.WriteJSON(path, ready); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := notifyReady(os.Getenv("NOTIFY_SOCKET")); err != nil {
		return err
	}
	fmt.Fprint(stdout, greeting)
	<-ctx.Done()
	return nil
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
func Stop(ctx context.Context, started *closers.Stack) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTime)
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
