// Package secrets encrypts signing secrets for the database, with AES-256-GCM
// and the keys of a file.
//
// The file has one key a line: its name, a colon, and 64 hex digits. The first
// key seals, all of them open. To rotate, put a new line first and start the
// origin again: it seals everything with it (see central.DB.ResealSecrets), and
// the old line can go. Where several origins share a database, the new line goes
// last in the files of all of them before it goes first in any.
//
// A sealed secret is the text
//
//	sealed:<key's name>:<base64 of 12 bytes of nonce, the ciphertext, 16 bytes of tag>
//
// bound to the record it belongs to, so that it opens nowhere else.
package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"partneredge/store/central/deliveries"
	"partneredge/store/durable"
)

const (
	prefix    = "sealed:"
	nonceSize = 12 // bytes
)

// Keys seal and open secrets. They are safe for concurrent use.
type Keys struct {
	first  string
	byName map[string]cipher.AEAD
}

// Load reads the file of keys, which only its owner may be able to read. Where
// there is none it makes one, mode 0600, with one key.
func Load(path string) (*Keys, error) {
	k, err := load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := create(path, time.Now()); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make key file: %w", err)
	}
	return load(path)
}

func load(path string) (*Keys, error) {
	text, err := durable.ReadPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	k, err := Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("read key file: %s: %w", path, err)
	}
	return k, nil
}

// create writes a file with one new key; fs.ErrExist when another process was
// first. No other file has a key of the same name: else a file that was lost, or that
// another origin of the database made for itself, would pass for the right one until a
// secret is opened.
func create(path string, now time.Time) error {
	var key [32]byte
	_, _ = rand.Read(key[:])
	line := fmt.Appendf(nil, "k%s-%s:%s\n", now.UTC().Format("20060102"), rand.Text(), hex.EncodeToString(key[:]))
	return durable.CreateFile(path, line, 0o600)
}

// Parse reads what a file holds. Empty lines and those that begin with # are
// left out. Its errors do not repeat what it read.
func Parse(text string) (*Keys, error) {
	k := &Keys{byName: make(map[string]cipher.AEAD)}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, digits, _ := strings.Cut(line, ":")
		key, err := hex.DecodeString(digits)
		if err != nil || len(key) != 32 || name == "" {
			return nil, fmt.Errorf("line %d is not a name, a colon and 64 hex digits", n)
		}
		if k.byName[name] != nil {
			return nil, fmt.Errorf("line %d has the name of another key", n)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		if k.byName[name], err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
		if k.first == "" {
			k.first = name
		}
	}
	if k.first == "" {
		return nil, errors.New("there is no key in it")
	}
	return k, nil
}

// Seal encrypts the secret of a record.
func (k *Keys) Seal(id, secret string) (string, error) {
	aead := k.byName[k.first]
	nonce := make([]byte, nonceSize, nonceSize+len(secret)+aead.Overhead())
	_, _ = rand.Read(nonce)
	sealed := aead.Seal(nonce, nonce, []byte(secret), []byte(id))
	return prefix + k.first + ":" + base64.RawStdEncoding.EncodeToString(sealed), nil
}

// Open decrypts the secret of a record. One that is not sealed, since it was
// kept before there were keys, is returned as it is. deliveries.ErrNoKey: it is
// sealed with a key that the file does not have.
func (k *Keys) Open(id, sealed string) (string, error) {
	rest, ok := strings.CutPrefix(sealed, prefix)
	if !ok {
		return sealed, nil
	}
	name, text, _ := strings.Cut(rest, ":")
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(raw) < nonceSize {
		return "", fmt.Errorf("open secret of %s: it is damaged", id)
	}
	aead := k.byName[name]
	if aead == nil {
		return "", fmt.Errorf("open secret of %s: %w: %q is not in the key file", id, deliveries.ErrNoKey, name)
	}
	secret, err := aead.Open(nil, raw[:nonceSize], raw[nonceSize:], []byte(id))
	if err != nil {
		return "", fmt.Errorf("open secret of %s: it is damaged, or another record's", id)
	}
	return string(secret), nil
}

// Fresh reports whether a secret is sealed with the first key.
func (k *Keys) Fresh(sealed string) bool { return strings.HasPrefix(sealed, prefix+k.first+":") }
