package outbox

import (
	"hash/maphash"
	"io"
	"math/bits"
	"slices"
)

// items holds where the items of a segment are, in the order they came, and which
// of them are gone. It takes 14 bytes an item: a table of 32-bit hashes of ids,
// which finds what may be an item's record, and an offset. Whoever looks an id up
// reads the record to see whether it is the one.
type items struct {
	seed    maphash.Seed
	slots   []slot   // a hash table with linear probing
	at      []uint32 // offset of each item's record, ascending
	gone    []uint64 // a bit for each item
	first   int      // no item before it waits
	waiting int      // how many wait
	bytes   int64    // of the records of those that wait
}

// slot is of one item. The zero slot is free.
type slot struct {
	hash uint32
	nth  uint32 // the item's index, from 1 on
}

// maxSegment is the most bytes of a segment that items can hold offsets of.
const maxSegment = 1<<32 - 1

func (x *items) hash(id []byte) uint32 { return uint32(maphash.Bytes(x.seed, id)) }

// home returns where the search for a hash begins.
func (x *items) home(hash uint32) int {
	hi, _ := bits.Mul64(uint64(hash)<<32, uint64(len(x.slots)))
	return int(hi)
}

// touch reads the slot where the search for a hash begins, so that find soon has it at
// hand. What it returns only keeps the compiler from leaving that out.
func (x *items) touch(hash uint32) uint32 {
	if len(x.slots) == 0 {
		return 0
	}
	return x.slots[x.home(hash)].nth
}

// forget removes all items and keeps the memory.
func (x *items) forget() {
	clear(x.slots)
	x.at, x.gone, x.first, x.waiting, x.bytes = x.at[:0], x.gone[:0], 0, 0, 0
}

// reserve makes room for n items in all.
func (x *items) reserve(n int) {
	if n <= cap(x.at) {
		return
	}
	x.at = append(make([]uint32, 0, n), x.at...)
	x.gone = append(make([]uint64, 0, n/64+1), x.gone...)
	x.resize(n*5/4 + 1)
}

// resize makes a table of n slots.
func (x *items) resize(n int) {
	old := x.slots
	x.slots = make([]slot, max(n, 64))
	for _, s := range old {
		if s.nth > 0 {
			x.put(s)
		}
	}
}

func (x *items) put(s slot) {
	p := x.home(s.hash)
	for x.slots[p].nth > 0 {
		p = x.after(p)
	}
	x.slots[p] = s
}

func (x *items) after(p int) int {
	if p++; p == len(x.slots) {
		return 0
	}
	return p
}

// add adds the item with a hash whose record of size bytes is at an offset. It
// must not wait already.
func (x *items) add(hash uint32, at int64, size int) {
	i := len(x.at)
	if i+1 > len(x.slots)*4/5 {
		x.resize(2 * len(x.slots))
	}
	x.at = append(x.at, uint32(at))
	if i%64 == 0 {
		x.gone = append(x.gone, 0)
	}
	x.put(slot{hash, uint32(i + 1)})
	x.waiting++
	x.bytes += int64(size)
}

// find returns the first waiting item with a hash for which same returns true, -1
// if there is none.
func (x *items) find(hash uint32, same func(at int64) bool) int {
	if x.waiting == 0 {
		return -1
	}
	for p := x.home(hash); x.slots[p].nth > 0; p = x.after(p) {
		if s := x.slots[p]; s.hash == hash {
			if i := int(s.nth - 1); x.waits(i) && same(int64(x.at[i])) {
				return i
			}
		}
	}
	return -1
}

func (x *items) waits(i int) bool { return x.gone[i/64]&(1<<(i%64)) == 0 }

// remove removes the waiting item i, whose record has size bytes.
func (x *items) remove(i, size int) {
	x.gone[i/64] |= 1 << (i % 64)
	x.waiting--
	x.bytes -= int64(size)
	for x.first < len(x.at) && !x.waits(x.first) {
		x.first++
	}
}

// restore marks item i as waiting again. Its record is size bytes long.
func (x *items) restore(i, size int) {
	x.gone[i/64] &^= 1 << (i % 64)
	x.waiting++
	x.bytes += int64(size)
	x.first = min(x.first, i)
}

// waitsAt returns the item whose record is at an offset, and whether it waits; -1 if there is
// none.
func (x *items) waitsAt(at uint32) (i int, waits bool) {
	i, found := slices.BinarySearch(x.at, at)
	if !found {
		return -1, false
	}
	return i, x.waits(i)
}

// hasAllOf reports whether all items wait that wait in other.
func (x *items) hasAllOf(other *items) bool {
	for i := other.first; i < len(other.at); i++ {
		if other.waits(i) {
			if _, waits := x.waitsAt(other.at[i]); !waits {
				return false
			}
		}
	}
	return true
}

// with returns items in which those that are gone wait again if they wait in found. from is the
// file that these were found in.
func (x items) with(found *items, from io.ReaderAt) (items, error) {
	x.gone = slices.Clone(x.gone)
	w := window{f: from}
	for j, at := range found.at {
		i, waits := x.waitsAt(at)
		if i < 0 || waits || !found.waits(j) {
			continue
		}
		rec, parsed, err := w.record(int64(at))
		if err != nil {
			return items{}, err
		}
		if parsed == whole {
			x.restore(i, rec.size)
		}
	}
	return x, nil
}
