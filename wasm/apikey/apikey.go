// Package apikey creates and checks API keys. Their format is:
//
//	svc_live_<30 random characters><6 characters of checksum>
//	svc_test_<30 random characters><6 characters of checksum>
//
// Characters are base 62: 0-9, A-Z, a-z. The checksum is the CRC-32 (IEEE) of
// everything before it, as a number of 6 digits, the highest first. It
// distinguishes a mistyped key from an unknown one without a look-up, and lets
// scanners recognize leaked keys. 30 characters hold 178 bits.
package apikey

import "partneredge/wasm/abi"

// Sizes, in bytes.
const (
	// Length is the length of a key.
	Length = len(live) + randomLength + checkLength
	// RandomSize is the number of random bytes that Mint needs. Of them 30 must be
	// below 248 and 62 are on average; fewer are less than once in 10^30 times.
	RandomSize = 64

	randomLength = 30
	checkLength  = 6
)

const (
	live     = "svc_live_"
	test     = "svc_test_"
	alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Mint creates a key from fresh random bytes. So that all characters are equally
// likely, it skips bytes of 248 (4 * 62) and more. If too few are left it returns
// "", and the caller must try again with new bytes.
func Mint(env abi.Environment, random *[RandomSize]byte) string {
	key := make([]byte, 0, Length)
	if env == abi.EnvLive {
		key = append(key, live...)
	} else {
		key = append(key, test...)
	}
	for _, r := range random {
		if r < 4*62 {
			key = append(key, alphabet[r%62])
		}
		if len(key) == len(live)+randomLength {
			check := checksum(string(key))
			return string(append(key, check[:]...))
		}
	}
	return ""
}

// Valid reports whether token is a well-formed key. It does not know whether the key
// exists.
func Valid(token string) bool {
	if len(token) != Length || token[:len(live)] != live && token[:len(test)] != test {
		return false
	}
	body := token[:Length-checkLength]
	known := byte(0)
	for i := len(live); i < len(body); i += 3 { // a loop's turn is what costs most in a guest
		known |= digits[body[i]] | digits[body[i+1]] | digits[body[i+2]]
	}
	check := uint64(0)
	for i := len(body); i < Length; i += 3 {
		a, b, c := digits[token[i]], digits[token[i+1]], digits[token[i+2]]
		known |= a | b | c
		check = check*(62*62*62) + uint64(a)*(62*62) + uint64(b)*62 + uint64(c)
	}
	return known&noDigit == 0 && check == uint64(crc32of(body))
}

// noDigit is set in the digit of a character that is none.
const noDigit = 1 << 7

// digits are the values of characters as digits of base 62.
var digits = func() (d [256]byte) {
	for i := range d {
		d[i] = noDigit
	}
	for i := range len(alphabet) {
		d[alphabet[i]] = byte(i)
	}
	return d
}()

func checksum(body string) (check [checkLength]byte) {
	n := crc32of(body)
	for i := checkLength - 1; i >= 0; i-- {
		check[i] = alphabet[n%62]
		n /= 62
	}
	return check
}

// crc32of computes the CRC-32 of IEEE 802.3, a nibble at a time: hash/crc32 would
// build tables of 9 KiB to check 39 bytes.
func crc32of(s string) uint32 {
	c := ^uint32(0)
	for ; len(s) >= 3; s = s[3:] { // a loop's turn is what costs most in a guest
		c = crc32Step(crc32Step(crc32Step(c, s[0]), s[1]), s[2])
	}
	for i := range len(s) {
		c = crc32Step(c, s[i])
	}
	return ^c
}

func crc32Step(c uint32, b byte) uint32 {
	c ^= uint32(b)
	c = c>>4 ^ nibbles[c&15]
	return c>>4 ^ nibbles[c&15]
}

var nibbles = [16]uint32{
	0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
	0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
}
