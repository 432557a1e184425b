package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"partneredge/edge/closers"
	"partneredge/store/durable"
)

// stopTime bounds the work that is under way when the process gets a signal to
// stop.
const stopTime = 15 * time.Second

// serve runs a process over a data directory until ctx ends. start adds what it
// started to the stack; it returns the content of file, which is in the directory
// while the process is up, and what to print then.
func serve(ctx context.Context, dir, file string, stdout io.Writer, start func(*closers.Stack) (ready any, greeting string, err error)) (err error) {
	unlock, err := lockData(dir, file)
	if err != nil {
		return err
	}
	defer unlock()
	var started closers.Stack
	defer func() {
		if stopErr := stopAll(ctx, &started); err == nil { // why it was not started matters more
			err = stopErr
		}
	}()
	ready, greeting, err := start(&started)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, file)
	defer os.Remove(path)
	if err := writeJSON(path, ready); err != nil {
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

// stopAll ends what has been started. Work under way has stopTime to finish, even
// when ctx is done.
func stopAll(ctx context.Context, started *closers.Stack) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return started.Close(ctx)
}

// lockData makes a data directory, where it is missing, and locks it: two
// processes over the same files would damage them. It removes the files that a
// process keeps only while it is up, in case one was killed.
func lockData(dir string, transient ...string) (unlock func(), err error) {
	unlock, err = durable.Lock(dir)
	switch {
	case errors.Is(err, durable.ErrLocked):
		return nil, hint(fmt.Errorf("the data directory %w", err), "stop that one, or give --data another directory")
	case err != nil:
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	for _, name := range transient {
		_ = os.Remove(filepath.Join(dir, name))
	}
	return unlock, nil
}

// writeJSON replaces path by v, indented, for its owner only.
func writeJSON(path string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(content, '\n'), 0o600)
}

// readJSON reads path into v. Its error is os.ErrNotExist when there is no such
// file.
func readJSON(path string, v any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
