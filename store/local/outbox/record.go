package outbox

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A segment's file is a row of records. Each is written once, and changed at most to a gone one
// of its size:
//
//	offset size
//	0      4    "lead"
//	4      4    CRC-32C of all that follows
//	8      4    bytes of body, n
//	12     1    kind: recordLead or recordGone; any other counts as recordGone
//	13     1    bytes of id, m
//	14     m    id
//	14+m   n    body; of a gone record none, or zeros
//
// Integers are little endian. A record of id "a" with body "{}" has 17 bytes.
// Zeros may follow the last record (see file).
const (
	recordHead = 14
	recordLead = 1 // the body is to be handed over
	recordGone = 2 // the lead of this id was handed over; see marks, and Outbox.erase

	maxID   = 255
	maxBody = 1 << 20
)

var recordMark = []byte("lead")

type record struct {
	kind byte
	id   []byte // shares the memory it was read from, as body does
	body []byte
	sum  uint32 // checksum of the record
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

// idIn and bodyIn return the id and the body of a record that appendRecord made.
func idIn(rec []byte) []byte   { return rec[recordHead:][:rec[13]] }
func bodyIn(rec []byte) []byte { return rec[recordHead+int(rec[13]):] }

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
	size, ok := recordSize(b)
	if !ok {
		return record{}, notARecord
	}
	if len(b) < size {
		return record{}, cutShort
	}
	sum := binary.LittleEndian.Uint32(b[4:])
	if sum != checksum(b[8:size]) {
		return record{}, notARecord
	}
	body := recordHead + int(b[13])
	return record{kind: b[12], id: b[recordHead:body], body: b[body:size], sum: sum, size: size}, whole
}

// parseHead reads the head and the id of the record at the start of b. Whether they
// are as they were written is not verified.
func parseHead(b []byte) (record, error) {
	if len(b) < recordHead || len(b) < recordHead+int(b[13]) || !bytes.Equal(b[:len(recordMark)], recordMark) {
		return record{}, errDamaged
	}
	size, _ := recordSize(b)
	return record{kind: b[12], id: b[recordHead:][:b[13]], sum: binary.LittleEndian.Uint32(b[4:]), size: size}, nil
}

// recordSize returns how many bytes the record has whose head b begins with. ok is
// false for more than a record may have.
func recordSize(b []byte) (size int, ok bool) {
	n := binary.LittleEndian.Uint32(b[8:])
	return recordHead + int(b[13]) + int(n), n <= maxBody
}

// checksum returns the CRC-32C of b.
func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
