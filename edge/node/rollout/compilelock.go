package rollout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"partneredge/store/durable"
)

// lockCompile returns when nobody else compiles the module of a digest. The caller passes
// to unlock whether it has compiled the module.
//
// Nodes that share a compile cache compile a module once: the first one compiles, the others
// wait and read what it left in the cache. A file named by a module's digest marks it as
// compiled. A mark of a module that the cache has lost costs time, and nothing else.
func (l *loader) lockCompile(ctx context.Context, digest string) (unlock func(compiled bool), err error) {
	dir := filepath.Join(l.cfg.Cache, "compiled")
	mark := filepath.Join(dir, strings.TrimPrefix(digest, "sha256:"))
	if _, err := os.Stat(mark); err == nil {
		return func(bool) {}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("lock the compile cache: %w", err)
	}
	unlockFile, err := durable.AwaitFile(ctx, mark+".lock")
	if err != nil {
		return nil, fmt.Errorf("lock the compile cache: %w", err)
	}
	return func(compiled bool) {
		if compiled {
			_ = os.WriteFile(mark, nil, 0o600) // without it the next node waits a little longer
		}
		unlockFile()
	}, nil
}
