package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// turns has nodes that share a compile cache compile a module once: the first
// one compiles, the others wait and read what it has left. Ten nodes on one
// machine would else all compile the same at once, and each be ten times slower.
//
// A module that was compiled into the cache is marked by a file of its digest. A
// mark that outlives what it tells of costs time, and nothing else.
type turns struct {
	dir string
}

// turnAgain is how often a node looks whether its turn has come.
const turnAgain = 20 * time.Millisecond

// take returns when nobody else compiles the module of a digest. compiled ends the
// turn.
func (t turns) take(ctx context.Context, digest string) (done func(compiled bool), err error) {
	mark := filepath.Join(t.dir, strings.TrimPrefix(digest, "sha256:"))
	if _, err := os.Stat(mark); err == nil {
		return func(bool) {}, nil
	}
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		return nil, fmt.Errorf("mark compiled module: %w", err)
	}
	f, err := os.OpenFile(mark+".turn", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("take turn to compile: %w", err)
	}
	tick := time.NewTicker(turnAgain)
	defer tick.Stop()
	for {
		taken, err := tryLock(f)
		if err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("take turn to compile: %w", err)
		}
		if taken {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		}
	}
	return func(compiled bool) {
		if compiled {
			_ = os.WriteFile(mark, nil, 0o600) // without it the next one waits a little longer
		}
		_ = f.Close() // the lock goes with it
	}, nil
}
