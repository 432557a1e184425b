package local

import (
	"errors"
	"os"
	"strings"
	"sync"

	"github.com/tidwall/buntdb"
)

// file is a tree of keys and values in memory (buntdb) and the changes of it on
// disk, in buntdb's own format. Each change is one key's value: a crash can
// leave any beginning of the row of changes, and each beginning is a state that
// was.
//
// On disk it is a base, path, which holds all that was there at some moment,
// and logs of what came after, path-1, path-2 and so on. Changes go to the end
// of the last log. Requests wait for that one write and for nothing else: the
// base is rewritten beside them (see shrink).
type file struct {
	path   string
	db     *buntdb.DB // in memory
	mended bool       // it was damaged, and a part of it was lost

	write sync.Mutex // held by whoever changes anything, so that the log has the tree's order
	log   *os.File   // the last
	part  int64      // its number
	size  int64      // its bytes
	buf   []byte

	// Of upkeep alone.
	base  int64 // bytes
	logs  int64 // bytes of the logs before the last
	worth int64 // bytes from which on it is made smaller
}

// changes are what an update is made of. Reads do not see what it sets.
type changes struct {
	f    *file
	sets []pair
}

type pair struct {
	key, value string
	gone       bool
}

func (c *changes) get(key string) (string, error) { return c.f.get(key) }

func (c *changes) set(key, value string) { c.sets = append(c.sets, pair{key: key, value: value}) }

func (c *changes) remove(key string) { c.sets = append(c.sets, pair{key: key, gone: true}) }

// update does what fn asks of its changes, unless fn fails: on disk first, which
// a process that is killed afterwards leaves there, then in memory. Nobody else
// changes anything meanwhile; others may read.
func (f *file) update(fn func(*changes) error) error {
	f.write.Lock()
	defer f.write.Unlock()
	c := changes{f: f}
	if err := fn(&c); err != nil {
		return err
	}
	if len(c.sets) == 0 {
		return nil
	}
	f.buf = f.buf[:0]
	for _, p := range c.sets {
		f.buf = appendCommand(f.buf, p)
	}
	if err := f.append(f.buf); err != nil {
		return err
	}
	if cap(f.buf) > 1<<20 {
		f.buf = nil
	}
	return f.db.Update(func(tx *buntdb.Tx) error {
		for _, p := range c.sets {
			var err error
			if p.gone {
				if _, err = tx.Delete(p.key); errors.Is(err, buntdb.ErrNotFound) {
					err = nil
				}
			} else {
				_, _, err = tx.Set(p.key, p.value, nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// append writes at the end of the last log. After an error nothing of b counts.
func (f *file) append(b []byte) error {
	if f.log == nil {
		return buntdb.ErrDatabaseClosed
	}
	if _, err := f.log.WriteAt(b, f.size); err != nil {
		_ = f.log.Truncate(f.size) // should this fail: the next write goes over it
		return err
	}
	f.size += int64(len(b))
	return nil
}

func (f *file) set(key, value string) error {
	return f.update(func(c *changes) error {
		c.set(key, value)
		return nil
	})
}

// remove deletes keys; those that are not there are no error.
func (f *file) remove(keys ...string) error {
	return f.update(func(c *changes) error {
		for _, k := range keys {
			c.remove(k)
		}
		return nil
	})
}

// get returns "" for a key that is not there.
func (f *file) get(key string) (string, error) {
	var v string
	err := f.db.View(func(tx *buntdb.Tx) error {
		var err error
		if v, err = tx.Get(key); errors.Is(err, buntdb.ErrNotFound) {
			return nil
		}
		return err
	})
	return v, err
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

// sync brings to disk what has been written. Writers do not wait for it. It is
// upkeep's.
func (f *file) sync() error {
	f.write.Lock()
	log := f.log
	f.write.Unlock()
	return log.Sync()
}

func (f *file) close() error {
	f.write.Lock()
	defer f.write.Unlock()
	if f.log == nil {
		return nil
	}
	err := errors.Join(f.log.Sync(), f.log.Close(), f.db.Close())
	f.log = nil
	return err
}
