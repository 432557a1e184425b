package wazero

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"

	"github.com/tetratelabs/wazero"

	"partneredge/host/compilecache"
)

// wazero reads machine code into memory of its own, all of it, though requests run a
// small part. The cache therefore holds the code once more, in a file from its first
// byte on, which the system can map: what does not run then takes no memory, and what
// does can be dropped and read again, as a program's own code can.

// codeFile is the name of that file in a module's folder.
const codeFile = "code"

// leaveFree is how many bytes of the disk stay free when such files are written. A node's
// outbox leaves as much for the node's other files.
const leaveFree = 64 << 20

var (
	// errOtherCode is the error of a file that does not hold the code that it should.
	errOtherCode = errors.New("the file holds other code")
	// errRefused is the error of a folder that machine code may not be mapped from.
	errRefused = errors.New("the system refuses to map machine code")
	// errNoRoom is the error of a disk that would have less than leaveFree left.
	errNoRoom = errors.New("too little room on the disk for machine code")
)

// Settle implements engine.Engine. Where code cannot be mapped, it stays in memory. The
// log has at most one line.
func (e *wazeroEngine) Settle(ctx context.Context) {
	if !mappable {
		return
	}
	e.mu.Lock()
	open, refused := slices.Collect(maps.Keys(e.open)), e.mapRefused
	e.mu.Unlock()
	mapped, size := 0, 0
	var failure error // the first one
	for _, c := range open {
		if refused || ctx.Err() != nil {
			break
		}
		n, err := c.moveToFile(ctx)
		if n > 0 {
			mapped, size = mapped+1, size+n
		}
		if failure == nil {
			failure = err
		}
		refused = errors.Is(err, errRefused)
	}
	e.mu.Lock()
	e.mapRefused = e.mapRefused || refused
	e.mu.Unlock()
	switch {
	case failure != nil:
		e.Log.Warn("machine code stays in memory", "dir", e.CacheDir, "modules_mapped", mapped, "err", failure)
	case mapped > 0:
		e.Log.Info("machine code mapped from the cache", "modules", mapped, "bytes", size)
	}
}

// moveToFile maps the module's machine code from its file, in place of the memory that
// wazero read it into, and returns how much that is. It does nothing the second time, nor
// to code that was not kept, nor where the file is to be written and ctx has ended. A disk
// that was full may be tried again.
func (c *code) moveToFile(ctx context.Context) (size int, err error) {
	c.mu.Lock() // Close waits
	defer c.mu.Unlock()
	if c.dir == "" || c.compiled == nil || c.mapped {
		return 0, nil
	}
	c.mapped = true // or else tried once
	executable, ok := machineCodeOf(c.compiled)
	if !ok {
		return 0, errors.New("this version of wazero keeps machine code elsewhere")
	}
	if len(executable) == 0 {
		return 0, nil
	}
	path := filepath.Join(c.dir, codeFile)
	err = mapFile(path, executable)
	if errors.Is(err, errOtherCode) || errors.Is(err, os.ErrNotExist) {
		if ctx.Err() != nil {
			c.mapped = false
			return 0, nil
		}
		err = c.engine.mapNewFile(path, executable)
	}
	if err != nil {
		c.mapped = !isFull(err)
		return 0, err
	}
	return len(executable), nil
}

// isFull reports whether an error may go away when there is more room on the disk.
func isFull(err error) bool {
	return errors.Is(err, errNoRoom) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// mapNewFile writes machine code to a file and maps it, if the disk has room. A file that is
// of no use is removed.
func (e *wazeroEngine) mapNewFile(path string, executable []byte) error {
	free, err := e.free(filepath.Dir(path))
	if err != nil {
		return err
	}
	if want := int64(len(executable)) + leaveFree; free < want {
		return fmt.Errorf("%w: %d bytes are free in %s, and %d wanted", errNoRoom, free, filepath.Dir(path), want)
	}
	// Synced before anything is mapped from it: a disk that takes no more must not show when
	// the system has dropped a page and reads it again.
	if err := compilecache.WriteSynced(path, executable); err != nil {
		return err
	}
	err = mapFile(path, executable)
	if errors.Is(err, errRefused) {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// machineCodeOf finds the memory that wazero has a module's machine code in, good until the
// module is closed. It is in no API.
func machineCodeOf(compiled wazero.CompiledModule) (executable []byte, ok bool) {
	module := reflect.ValueOf(compiled)
	id, all := field(field(module, "module"), "ID"), field(field(module, "compiledEngine"), "compiledModules")
	if !id.IsValid() || all.Kind() != reflect.Map || all.Type().Key() != id.Type() {
		return nil, false
	}
	found := field(field(field(all.MapIndex(id), "compiledModule"), "executables"), "executable")
	if !found.IsValid() || found.Type() != reflect.TypeFor[[]byte]() {
		return nil, false
	}
	return found.Bytes(), true
}

// field returns a field of the structure that v is or leads to, an invalid value where
// there is none of that name.
func field(v reflect.Value, name string) reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return reflect.Value{}
	}
	return v.FieldByName(name)
}
