package local

import (
	"errors"

	"github.com/tidwall/buntdb"
)

// behind holds the keys whose changes are in the tree and not in the log, because
// the disk took none. Upkeep tries to write them every second; meanwhile no
// change goes to the log, which so stays what the tree once was. nil: the log has
// everything.
type behind map[string]bool // true: the log may have an earlier value of the key

// catchUpBytes is about how much of what the log lacks is written at once.
const catchUpBytes = 64 << 10

// record writes changes to the log. Where the disk takes nothing, and the file
// goes on in memory, it notes what the log lacks. f.mu is held.
func (f *file) record(list []edit) error {
	if f.behind == nil {
		err := f.append(f.encode(list))
		if err == nil || !f.inMemory || errors.Is(err, buntdb.ErrDatabaseClosed) {
			return err
		}
		f.logger.Error("disk takes nothing: going on in memory", "file", f.path, "err", err)
		f.behind = behind{}
	}
	for _, one := range list {
		logged, noted := f.behind[one.key]
		if !noted {
			value, err := f.get(one.key)
			if err != nil {
				return err
			}
			logged = value != ""
		}
		if one.remove && !logged {
			delete(f.behind, one.key) // the log never had it
		} else {
			f.behind[one.key] = logged
		}
	}
	return nil
}

// encode returns changes as the log has them, in memory that is used again.
func (f *file) encode(list []edit) []byte {
	b := f.buf[:0]
	for _, one := range list {
		b = appendCommand(b, one)
	}
	if f.buf = b; cap(b) > 1<<20 {
		f.buf = nil
	}
	return b
}

// catchUp writes to the log what it lacks, as far as the disk takes it. Requests
// go on in between.
func (f *file) catchUp() {
	for f.catchUpSome() {
	}
}

func (f *file) catchUpSome() (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.behind == nil {
		return false
	}
	list := f.lacking()
	if len(list) == 0 {
		f.behind = nil
		f.logger.Info("disk takes changes again", "file", f.path)
		return false
	}
	if f.append(f.encode(list)) != nil {
		return false // which was logged when it began
	}
	for _, one := range list {
		delete(f.behind, one.key)
	}
	return true
}

// lacking returns some changes that the log lacks. Removals come when there is
// nothing else: the floor of the buckets must be in the log before an account
// that was below it is gone. f.last comes after them, alone. f.mu is held.
func (f *file) lacking() (list []edit) {
	var removals []edit
	size := 0
	for key := range f.behind {
		if size > catchUpBytes {
			break
		}
		if key == f.last && len(f.behind) > 1 {
			continue
		}
		value, err := f.get(key)
		if err == nil && value == "" {
			removals = append(removals, edit{key: key, remove: true})
			continue
		}
		list = append(list, edit{key: key, value: value})
		size += len(key) + len(value) + setOverhead
	}
	if len(list) == 0 {
		return removals
	}
	return list
}

// isBehind reports whether the file goes on in memory.
func (f *file) isBehind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.behind != nil
}
