//go:build !unix

package command

import (
	"fmt"
	"os"
)

// lockDir makes dir. There is no lock on this system.
func lockDir(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the data directory: %w", err)
	}
	return func() {}, nil
}
