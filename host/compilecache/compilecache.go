// Package compilecache guards the directory in which engines keep compiled
// modules. What lies there is machine code that the process runs: Check refuses
// a directory that others may write to, and Verify finds a file that is damaged
// before an engine loads it. Prune bounds what lies there.
package compilecache

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// ErrDamaged is wrapped by the error of a file that is not as it was recorded.
var ErrDamaged = errors.New("compiled module is damaged")

// SumSuffix ends the name of the file that holds the SHA-256, in hexadecimal, of
// the file beside it.
const SumSuffix = ".sum"

// ExposedError is the error of a directory or file of a cache that another user
// may write to.
type ExposedError struct {
	Path string
	// Why is the reason: the mode or the owner.
	Why string
	// Fix is the command that mends it.
	Fix string
}

// Error implements error.
func (e *ExposedError) Error() string {
	return fmt.Sprintf("compile cache: %s %s, and what it holds is run as machine code", e.Path, e.Why)
}

// Record notes the sum of the file at path, which an engine has just written.
// A process that is killed meanwhile leaves a file that does not pass Verify.
func Record(path string) error {
	sum, err := sumOf(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path+SumSuffix, sum, 0o600)
}

// WriteFile writes a file and its sum, and makes the folder. Others that write or read
// the same at that time find a file that Verify accepts, or none.
func WriteFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := replace(path+SumSuffix, hexSum(content), false); err != nil { // before the file: it is not there without
		return err
	}
	return replace(path, content, false)
}

// WriteSynced writes a file without a sum, which nobody may write to. It is on the disk before
// others see it, all or nothing.
func WriteSynced(path string, content []byte) error {
	return replace(path, content, true)
}

// replace writes a file of which others see all or nothing. Without sync it leaves it to the
// system when the file is on the disk: its sum shows what is damaged.
func replace(path string, content []byte, sync bool) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "part")
	if err != nil {
		return err
	}
	if _, err = temp.Write(content); err == nil && sync {
		err = errors.Join(temp.Sync(), temp.Chmod(0o400))
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// Verify returns an error that wraps ErrDamaged, and no other, unless the file at
// path is as Record found it.
func Verify(path string) error {
	sum, err := sumOf(path)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return verify(path, sum)
}

// ReadFile returns the content of a file that Verify accepts.
func ReadFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return text, verify(path, hexSum(text))
}

// verify compares the sum of the file at path with the one that was recorded. It notes for
// Prune that the file is used.
func verify(path string, sum []byte) error {
	want, err := os.ReadFile(path + SumSuffix)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	if !bytes.Equal(sum, want) {
		return fmt.Errorf("%w: %s has another sum than when it was written", ErrDamaged, path)
	}
	now := time.Now()
	_ = os.Chtimes(path+SumSuffix, now, now) // a cache that only may be read is not pruned either
	return nil
}

// Remove removes the file at path, or the directory that took its place, and
// its sum.
func Remove(path string) error {
	return errors.Join(os.RemoveAll(path), os.RemoveAll(path+SumSuffix))
}

func sumOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return hex.AppendEncode(nil, h.Sum(nil)), nil
}

func hexSum(content []byte) []byte {
	sum := sha256.Sum256(content)
	return hex.AppendEncode(nil, sum[:])
}
