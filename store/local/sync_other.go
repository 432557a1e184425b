//go:build !linux

package local

import "os"

func syncData(f *os.File) error { return f.Sync() }
