//go:build !linux

package durable

import "os"

// SyncData brings a file's bytes and length to disk. Unlike Sync, it leaves out
// the file's times where the system can tell them apart.
func SyncData(f *os.File) error { return f.Sync() }
