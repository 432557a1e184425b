package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"partneredge/store/durable"
)

// lockData makes a data directory, where it is missing, and locks it: two
// processes over the same files would spoil both. It removes the files that a
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
