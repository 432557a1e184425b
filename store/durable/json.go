package durable

import (
	"encoding/json"
	"fmt"
	"os"
)

// WriteJSON is Disk.WriteJSON of the system's disk.
func WriteJSON(path string, v any) error { return Disk{}.WriteJSON(path, v) }

// WriteJSON replaces path by v, indented, for its owner only.
func (d Disk) WriteJSON(path string, v any) error {
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return d.WriteFile(path, append(content, '\n'), 0o600)
}

// ReadJSON reads path into v. Its error is os.ErrNotExist when there is no such
// file.
func ReadJSON(path string, v any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
