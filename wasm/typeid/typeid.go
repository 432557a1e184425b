// Package typeid creates identifiers that name the type of what they identify and
// sort by the time of creation: a prefix, "_", and a UUIDv7 (RFC 9562) as 26
// characters of Crockford's base 32 in lower case (TypeID specification 0.3).
package typeid

import "strings"

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// Make returns prefix_<26 characters> for a time in milliseconds since the Unix
// epoch and 10 random bytes, of which 74 bits are used. The random bytes must be
// fresh.
func Make(prefix string, unixMilli int64, random [10]byte) string {
	u := [16]byte{
		byte(unixMilli >> 40), byte(unixMilli >> 32), byte(unixMilli >> 24),
		byte(unixMilli >> 16), byte(unixMilli >> 8), byte(unixMilli),
	}
	copy(u[6:], random[:])
	u[6] = u[6]&0x0f | 0x70 // version 7
	u[8] = u[8]&0x3f | 0x80 // RFC 9562 variant

	out := make([]byte, 0, len(prefix)+27)
	out = append(out, prefix...)
	out = append(out, '_')
	// 130 bits in 26 characters: two zero bits, then the 128 of the UUID.
	var acc uint32
	bits := 2
	for _, b := range u {
		acc = acc<<8 | uint32(b)
		bits += 8
		for bits >= 5 {
			bits -= 5
			out = append(out, alphabet[acc>>bits&31])
		}
	}
	return string(out)
}

// UnixMilli returns the time in an identifier that Make returned, in milliseconds
// since the Unix epoch; false if id is not of that form.
func UnixMilli(id string) (milli int64, ok bool) {
	at := strings.LastIndexByte(id, '_')
	if at < 0 || len(id)-at != 27 || id[at+1] > '7' {
		return 0, false
	}
	for i := at + 1; i < len(id); i++ {
		digit := strings.IndexByte(alphabet, id[i])
		if digit < 0 {
			return 0, false
		}
		if i <= at+10 {
			milli = milli<<5 | int64(digit)
		}
	}
	return milli, true
}
