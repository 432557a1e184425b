package outbox

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// An outbox's file is a row of records, each written once and never changed:
//
//	offset size
//	0      4    "lead"
//	4      4    CRC-32C of all that follows
//	8      4    bytes of body, n
//	12     1    kind: recordLead or recordGone
//	13     1    bytes of id, m
//	14     m    id
//	14+m   n    body; of a gone record none
//
// Integers are little endian. A record of id "a" with body "{}" has 17 bytes.
// Zeros may follow the last record (see file).
const (
	recordHead = 14
	recordLead = 1 // the body is to be handed over
	recordGone = 2 // the lead of this id was handed over

	maxID   = 255
	maxBody = 1 << 20
)

var recordMark = []byte("lead")

type record struct {
	kind byte
	id   string
	body []byte // shares the memory it was read from
	size int    // bytes of the whole record
}

func appendRecord(b []byte, kind byte, id string, body []byte) []byte {
	start := len(b)
	b = append(b, recordMark...)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, kind, byte(len(id)))
	b = append(b, id...)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[start+4:], checksum(b[start+8:]))
	return b
}

// parsed names what parseRecord found.
type parsed int

const (
	notARecord parsed = iota
	cutShort          // what may be the beginning of a record
	whole
)

// parseRecord reads the record at the start of b.
func parseRecord(b []byte) (record, parsed) {
	if n := min(len(b), len(recordMark)); !bytes.Equal(b[:n], recordMark[:n]) {
		return record{}, notARecord
	}
	if len(b) < recordHead {
		return record{}, cutShort
	}
	n, m := int(binary.LittleEndian.Uint32(b[8:])), int(b[13])
	if n > maxBody {
		return record{}, notARecord
	}
	size := recordHead + m + n
	if len(b) < size {
		return record{}, cutShort
	}
	if binary.LittleEndian.Uint32(b[4:]) != checksum(b[8:size]) {
		return record{}, notARecord
	}
	return record{kind: b[12], id: string(b[recordHead : recordHead+m]), body: b[recordHead+m : size], size: size}, whole
}

// replay calls fn for each whole record in b, in order, and skips what is none.
// good is the length of the whole records up to the first gap. damaged reports
// that more than one record cut short follows them.
func replay(b []byte, fn func(at int, rec record)) (good int, damaged bool) {
	gap := false
	for at := 0; at < len(b); {
		rec, found := parseRecord(b[at:])
		if found == whole {
			fn(at, rec)
			at += rec.size
			if gap {
				damaged = true
			} else {
				good = at
			}
			continue
		}
		if !gap {
			gap = true
			damaged = found == notARecord && !torn(b[at:])
		}
		next := bytes.Index(b[at+1:], recordMark)
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return good, damaged
}

// torn reports whether b begins with a record of which only the first bytes,
// maybe none, were written before the zeros that follow.
func torn(b []byte) bool {
	written := bytes.TrimRight(b, "\x00")
	if n := min(len(written), len(recordMark)); !bytes.Equal(written[:n], recordMark[:n]) {
		return false
	}
	size := recordHead
	if len(b) >= recordHead {
		size += int(b[13]) + int(min(binary.LittleEndian.Uint32(b[8:]), maxBody))
	}
	return len(written) < size
}

// checksum returns the CRC-32C of b.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
