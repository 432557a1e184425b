// Package durabletest provides a disk for tests that counts operations, fails on demand,
// and can lose its power.
//
// The disk is a directory of the machine, in which code under test may read as
// it likes. What it writes goes through the disk (a durable.FS), which remembers
// what a sync has brought to safety: a file's bytes with File.Sync, the names in
// a directory with SyncDir. After a power cut the directory holds that and, as
// Cut is asked, some of the rest. A file that is written past the disk counts as
// synced.
package durabletest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"partneredge/store/durable"
)

// ErrPowerCut is the error of everything after the power went.
var ErrPowerCut = errors.New("the power is cut")

// Kind names an operation on files.
type Kind string

// The operations that change something, or bring it to safety.
const (
	Make     Kind = "make" // a file that was not there
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Chmod    Kind = "chmod"
	Sync     Kind = "sync"
	SyncDir  Kind = "sync of a directory"
	Rename   Kind = "rename"
	Link     Kind = "link"
	Remove   Kind = "remove"
)

// The operations that change nothing. No power cut is at one, and it has no place among
// the others: N of its Op is 0.
const (
	ReadAt Kind = "read"
	Stat   Kind = "stat"
)

// Op is an operation that is about to be done.
type Op struct {
	N    int // from 1 on, over all operations that change something
	Of   int // from 1 on, over those of the same kind
	Kind Kind
	Path string
	Size int // bytes of a write
}

// Disk is a durable.FS. Its methods may be called from many goroutines.
type Disk struct {
	t   testing.TB
	dir string

	mu     sync.Mutex
	before func(Op) error
	n      int
	of     map[Kind]int
	cut    bool
	dirs   map[string]*names
	nodes  []*node  // every file there was
	again  []string // files that were written after a sync of them had failed
}

// New returns a disk over the directory dir.
func New(t testing.TB, dir string) *Disk {
	return &Disk{t: t, dir: dir, of: map[Kind]int{}, dirs: map[string]*names{}, before: func(Op) error { return nil }}
}

// Before makes the disk call fn ahead of each operation. An error of fn is that of the
// operation, which is then not done; a write that fails does half of its work,
// as on a disk that becomes full. ErrPowerCut ends everything.
func (d *Disk) Before(fn func(Op) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.before = fn
}

// CutAt cuts the power ahead of the n-th operation.
func (d *Disk) CutAt(n int) {
	d.Before(func(op Op) error {
		if op.N >= n {
			return ErrPowerCut
		}
		return nil
	})
}

// Fail makes the n-th operation of a kind fail with err.
func (d *Disk) Fail(kind Kind, n int, err error) {
	d.Before(func(op Op) error {
		if op.Kind == kind && op.Of == n {
			return err
		}
		return nil
	})
}

// Count returns how many operations of a kind were asked for.
func (d *Disk) Count(kind Kind) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[kind]
}

// AfterFailedSync returns the files that were written again after a sync of them had
// failed.
func (d *Disk) AfterFailedSync() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.again)
}

// Ops returns how many operations that change something were asked for.
func (d *Disk) Ops() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// Cut cuts the power, if it is still there, and leaves in the directory what was
// on disk: all that was synced and, of what was not, whatever rng picks; nothing
// of it for nil. The code under test has to have ended, or to hold nothing but
// files of this disk.
func (d *Disk) Cut(rng *rand.Rand) {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = true
	content := map[*node][]byte{}
	for _, n := range d.nodes {
		content[n] = n.surviving(rng)
	}
	for path, names := range d.dirs {
		for name := range names.now {
			d.must(os.Remove(filepath.Join(path, name)))
		}
	}
	for path, names := range d.dirs {
		for name, n := range names.surviving(rng) {
			d.must(os.WriteFile(filepath.Join(path, name), content[n], n.perm))
		}
	}
}

func (d *Disk) must(err error) {
	d.t.Helper()
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Fatalf("disk of a test: %v", err)
	}
}

// do asks whether an operation may go ahead. d.mu is held.
func (d *Disk) do(kind Kind, path string, size int) error {
	if d.cut {
		return ErrPowerCut
	}
	d.of[kind]++
	op := Op{Of: d.of[kind], Kind: kind, Path: path, Size: size}
	if kind != ReadAt && kind != Stat {
		d.n++
		op.N = d.n
	}
	err := d.before(op)
	d.cut = errors.Is(err, ErrPowerCut)
	return err
}

// names is a directory: which file each name is of.
type names struct {
	now, synced map[string]*node
	unsynced    []string // names that were changed since, in order
}

func (x *names) set(name string, n *node) {
	if n == nil {
		delete(x.now, name)
	} else {
		x.now[name] = n
	}
	x.unsynced = append(x.unsynced, name)
}

// surviving returns the names after a power cut. A file system writes changes of
// names in their order, so some first ones of those that were not synced may be
// there; a name that was changed since is as it was last.
func (x *names) surviving(rng *rand.Rand) map[string]*node {
	left := maps.Clone(x.synced)
	if rng == nil {
		return left
	}
	for _, name := range x.unsynced[:rng.IntN(len(x.unsynced)+1)] {
		if n := x.now[name]; n != nil {
			left[name] = n
		} else {
			delete(left, name)
		}
	}
	return left
}

// namesIn returns the names in a directory. d.mu is held.
func (d *Disk) namesIn(dir string) *names {
	dir = filepath.Clean(dir)
	x := d.dirs[dir]
	if x == nil {
		x = &names{now: map[string]*node{}, synced: map[string]*node{}}
		d.dirs[dir] = x
	}
	return x
}

// find returns the directory of path and the name there, and makes a file known
// that was there before. d.mu is held.
func (d *Disk) find(path string) (*names, string) {
	x, name := d.namesIn(filepath.Dir(path)), filepath.Base(path)
	if x.now[name] == nil {
		info, err := os.Lstat(path)
		if err == nil && info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			d.must(err)
			n := &node{synced: text, perm: info.Mode().Perm()}
			d.nodes = append(d.nodes, n)
			x.now[name], x.synced[name] = n, n
		}
	}
	return x, name
}

// OpenFile opens or makes a file.
func (d *Disk) OpenFile(path string, flag int, perm os.FileMode) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return nil, ErrPowerCut
	}
	x, name := d.find(path)
	n := x.now[name]
	if n == nil && flag&os.O_CREATE != 0 {
		if err := d.do(Make, path, 0); err != nil {
			return nil, err
		}
	}
	real, err := os.OpenFile(path, flag, perm)
	if err != nil {
		return nil, err
	}
	if n == nil {
		n = &node{perm: perm}
		d.nodes = append(d.nodes, n)
		x.set(name, n)
	} else if flag&os.O_TRUNC != 0 {
		n.change(change{size: 0})
	}
	return &file{real: real, disk: d, node: n, path: path, appends: flag&os.O_APPEND != 0}, nil
}

// CreateTemp makes a file with a name of its own.
func (d *Disk) CreateTemp(dir, pattern string) (durable.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.do(Make, filepath.Join(dir, pattern), 0); err != nil {
		return nil, err
	}
	real, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	n := &node{perm: 0o600}
	d.nodes = append(d.nodes, n)
	d.namesIn(dir).set(filepath.Base(real.Name()), n)
	return &file{real: real, disk: d, node: n, path: real.Name()}, nil
}

// Rename gives a file another name.
func (d *Disk) Rename(from, to string) error {
	return d.move(Rename, from, to, os.Rename)
}

// Link gives a file a second name.
func (d *Disk) Link(from, to string) error {
	return d.move(Link, from, to, os.Link)
}

func (d *Disk) move(kind Kind, from, to string, do func(from, to string) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, name := d.find(from)
	y, other := d.find(to)
	n := x.now[name]
	if n == nil {
		d.t.Errorf("disk of a test: %s of %s, which is no file", kind, from)
	}
	if err := d.do(kind, to, 0); err != nil {
		return err
	}
	if err := do(from, to); err != nil {
		return err
	}
	y.set(other, n)
	if kind == Rename {
		x.set(name, nil)
	}
	return nil
}

// Remove removes a name.
func (d *Disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, name := d.find(path)
	if x.now[name] == nil {
		return os.Remove(path)
	}
	if err := d.do(Remove, path, 0); err != nil {
		return err
	}
	x.set(name, nil)
	return os.Remove(path)
}

// SyncDir brings the names in a directory to safety.
func (d *Disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.namesIn(dir)
	if err := d.do(SyncDir, dir, 0); err != nil {
		return err
	}
	x.unsynced, x.synced = nil, maps.Clone(x.now)
	return nil
}

// Cuts runs a scenario again and again, with the power cut at each of its
// operations in turn, until it comes to its end. Between the cut and verify, the
// directory holds what was synced and, after the first round, some of the rest.
func Cuts(t *testing.T, scenario func(disk *Disk, dir string), verify func(when, dir string)) {
	t.Helper()
	for seed := range uint64(4) {
		for at := 1; ; at++ {
			dir := t.TempDir()
			disk := New(t, dir)
			disk.CutAt(at)
			scenario(disk, dir)
			ops := disk.Ops()
			var rng *rand.Rand
			if seed > 0 {
				rng = rand.New(rand.NewPCG(seed, uint64(at)))
			}
			disk.Cut(rng)
			verify(fmt.Sprintf("seed %d, cut at operation %d", seed, at), dir)
			if ops < at {
				break
			}
		}
	}
}
