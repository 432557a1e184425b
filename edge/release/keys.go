package release

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"
)

// maxKeys is the longest file of public keys, in bytes.
const maxKeys = 64 << 10

// ReadKeys reads a file of public keys: see ParseKeys.
func ReadKeys(file string) ([]minisign.PublicKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the release keys: %w", err)
	}
	keys, err := ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("reading the release keys: %s: %w", file, err)
	}
	return keys, nil
}

// ParseKeys reads public keys as minisign writes them: a line of base64 each.
// Comments ("untrusted comment: …", or what begins with #) and empty lines are
// passed over, so files of minisign's can be put one after the other. Anything
// else is an error, and so is no key at all.
func ParseKeys(text []byte) (keys []minisign.PublicKey, err error) {
	if len(text) > maxKeys {
		return nil, fmt.Errorf("more than %d bytes", maxKeys)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxKeys)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "untrusted comment:") {
			continue
		}
		var key minisign.PublicKey
		if err := key.UnmarshalText([]byte(line)); err != nil {
			return nil, fmt.Errorf("line %d is no public key of minisign's", n)
		}
		keys = append(keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in it")
	}
	return keys, nil
}
