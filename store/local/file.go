package local

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/buntdb"

	"partneredge/store/durable"
)

// file is a tree of keys and values in memory (buntdb) and, in the file at path,
// the log of its changes in buntdb's format. Whoever reads the log from its
// beginning, to whatever change, gets a state that the tree once had.
//
// A change is in the log before update returns, so a process that is killed
// does not lose it; sync brings it to disk. A transaction of several changes
// may come back in part: what must be whole is one key's value.
type file struct {
	disk    durable.Disk
	path    string
	db      *buntdb.DB // in memory
	damaged bool       // something was lost when the file was opened
	logger  *slog.Logger
	// free returns how many bytes the disk of a directory has, and how many of them may
	// still be used.
	free func(dir string) (free, total int64, err error)
	// inMemory allows changes to be made in the tree alone while the disk takes nothing.
	inMemory bool
	// last is a key whose value holds for all that was changed before: the log gets it
	// once it lacks nothing else. "" if there is none.
	last string
	// syncEach makes update return only once its changes are on disk.
	syncEach bool

	mu     sync.Mutex // guards what follows; held by whoever changes anything, so that the log has the tree's order
	logs   []*logFile // that changes are written to: the file at path; while a shrink ends, its successor too
	buf    []byte
	behind behind // what logs lack

	// Only upkeep uses these.
	live       int64 // bytes of a log with nothing in it but what is in use, about
	shrinkFrom int64 // bytes below which the log is not made smaller
	anew       int   // seconds until the log is written anew, whatever its size
	exact      int64 // size at which the log has nothing in it but what is in use; 0 where that is not known
}

// logFile is an open file and where the next change goes.
type logFile struct {
	durable.File
	size   int64
	copied int64 // bytes of another log, which may not be in use any more
	unsure bool  // a sync failed: the file on disk may lack what the tree has, amid what it has
	// unnamed means that after a power cut another file may have its name: the directory
	// could not be synced when it took the other's place.
	unnamed bool
}

// openFile opens or makes the file at path. If the file is damaged, it is set
// aside, or cut where that fails, which is one line in log, and the tree is what lay before the damage.
func openFile(disk durable.Disk, path string, log *slog.Logger, now time.Time) (f *file, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open local file %s: %w", path, err)
		}
	}()
	if err := removeLeftovers(disk, path); err != nil {
		return nil, err
	}
	r, err := repair(disk, path, now)
	if err != nil {
		return nil, err
	}
	switch {
	case r.failed != nil:
		log.Error("local file damaged and cannot be set aside: cut to what is whole",
			"file", path, "kept_bytes", r.kept, "lost_bytes", r.lost, "damage", r.damage, "err", r.failed)
	case r.aside != "":
		log.Error("local file damaged: set aside, going on with what is whole",
			"file", path, "aside", r.aside, "kept_bytes", r.kept, "lost_bytes", r.lost, "damage", r.damage)
	}
	f = &file{disk: disk, path: path, damaged: r.aside != "", logger: log, free: durable.Free, shrinkFrom: shrinkFrom, anew: firstAnew}
	if f.db, err = buntdb.Open(":memory:"); err != nil {
		return nil, err
	}
	own, err := disk.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		f.logs = []*logFile{{File: own, size: r.kept}}
		err = f.db.Load(own)
	}
	if err == nil {
		err = f.each("", "", func(key, value string) bool {
			f.live += int64(len(key) + len(value) + setOverhead)
			return true
		})
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// removeLeftovers removes what a shrink that was cut short has left, and files
// of the layout before this one, which had logs named PATH-NUMBER beside the
// file. The node fetches again what those held.
func removeLeftovers(disk durable.Disk, path string) error {
	dir, base := filepath.Split(path)
	beside, err := fs.Glob(os.DirFS(filepath.Clean(dir)), base+"-*")
	if err != nil {
		return err
	}
	old := []string{path + shrinking}
	for _, name := range beside {
		if _, err := strconv.ParseUint(strings.TrimPrefix(name, base+"-"), 10, 63); err == nil {
			old = append(old, path, filepath.Join(dir, name)) // path first: without its logs it must not be read
		}
	}
	for _, name := range old {
		if err := disk.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// changes collects the changes of an update. Its get does not see what set and
// remove have been told.
type changes struct {
	f    *file
	list []edit
}

type edit struct {
	key, value string
	remove     bool
}

func (c *changes) get(key string) (string, error) { return c.f.get(key) }

func (c *changes) set(key, value string) { c.list = append(c.list, edit{key: key, value: value}) }

func (c *changes) remove(key string) { c.list = append(c.list, edit{key: key, remove: true}) }

// update makes the changes that fn asks for, in the log and then in the tree, or
// none when fn fails, or when the disk does and the file does not go on in
// memory. Nobody else changes anything meanwhile; others may read, and do not
// wait for the disk.
func (f *file) update(fn func(*changes) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := changes{f: f}
	if err := fn(&c); err != nil {
		return err
	}
	if len(c.list) == 0 {
		return nil
	}
	if err := f.record(c.list); err != nil {
		return err
	}
	return f.db.Update(func(tx *buntdb.Tx) error {
		for _, one := range c.list {
			var err error
			if one.remove {
				_, err = tx.Delete(one.key)
			} else {
				_, _, err = tx.Set(one.key, one.value, nil)
			}
			if err != nil && !errors.Is(err, buntdb.ErrNotFound) {
				return err
			}
		}
		return nil
	})
}

// busy reports whether somebody changes the file.
func (f *file) busy() bool {
	if !f.mu.TryLock() {
		return true
	}
	f.mu.Unlock()
	return false
}

// append writes b at the end of the log. After an error nothing of b counts.
func (f *file) append(b []byte) error {
	if len(f.logs) == 0 {
		return buntdb.ErrDatabaseClosed
	}
	for _, log := range f.logs {
		if _, err := log.WriteAt(b, log.size); err != nil {
			for _, log := range f.logs {
				_ = log.Truncate(log.size) // should this fail: the next change goes over b
			}
			return err
		}
	}
	for _, log := range f.logs {
		log.size += int64(len(b))
	}
	if !f.syncEach {
		return nil
	}
	for _, log := range f.logs {
		if err := f.syncLog(log); err != nil {
			for _, log := range f.logs {
				log.unsure = true
				log.size -= int64(len(b))
				_ = log.Truncate(log.size)
			}
			return err
		}
	}
	return nil
}

// appendCommand adds a change as buntdb itself would write it.
func appendCommand(b []byte, e edit) []byte {
	if e.remove {
		return appendBulk(append(b, "*2\r\n$3\r\ndel\r\n"...), e.key)
	}
	return appendBulk(appendBulk(append(b, "*3\r\n$3\r\nset\r\n"...), e.key), e.value)
}

func appendBulk(b []byte, s string) []byte {
	b = append(strconv.AppendInt(append(b, '$'), int64(len(s)), 10), "\r\n"...)
	return append(append(b, s...), "\r\n"...)
}

// setOverhead is about how many bytes a set command has beside key and value.
const setOverhead = 30

func (f *file) set(key, value string) error {
	return f.update(func(c *changes) error {
		c.set(key, value)
		return nil
	})
}

// remove deletes keys; those that are not there are no error.
func (f *file) remove(keys ...string) error {
	return f.update(func(c *changes) error {
		for _, key := range keys {
			c.remove(key)
		}
		return nil
	})
}

// get returns "" for a key that is not there.
func (f *file) get(key string) (value string, err error) {
	err = f.db.View(func(tx *buntdb.Tx) error {
		value, err = tx.Get(key)
		return err
	})
	if errors.Is(err, buntdb.ErrNotFound) {
		err = nil
	}
	return value, err
}

// each calls fn for the keys with this prefix, in order, without it, until fn
// returns false. from is the key after the prefix to begin at.
func (f *file) each(prefix, from string, fn func(key, value string) bool) error {
	return f.db.View(func(tx *buntdb.Tx) error {
		return tx.AscendGreaterOrEqual("", prefix+from, func(k, v string) bool {
			rest, ok := strings.CutPrefix(k, prefix)
			return ok && fn(rest, v)
		})
	})
}

// sync brings to disk what has been written. Writers do not wait for it. After an error
// the system takes for written what is not, so the log is to be written anew. Only upkeep
// calls it.
func (f *file) sync() error {
	f.mu.Lock()
	log := f.logs[0]
	f.mu.Unlock()
	err := f.syncLog(log)
	if err != nil {
		f.mu.Lock()
		log.unsure = true
		f.mu.Unlock()
	}
	return err
}

// syncLog brings a log to disk, and its name where that may not be there.
func (f *file) syncLog(log *logFile) error {
	err := log.SyncData()
	if err == nil && log.unnamed {
		err = f.disk.SyncDir(filepath.Dir(f.path))
	}
	return err
}

// close brings everything to disk. It may be called twice.
func (f *file) close() error {
	f.catchUp()
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for _, log := range f.logs {
		err = errors.Join(err, f.syncLog(log), log.Close())
	}
	f.logs = nil
	if closed := f.db.Close(); !errors.Is(closed, buntdb.ErrDatabaseClosed) {
		err = errors.Join(err, closed)
	}
	return err
}
