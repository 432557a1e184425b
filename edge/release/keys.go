package release

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"aead.dev/minisign"

	"partneredge/edge/hint"
	"partneredge/store/durable"
)

// maxKeys bounds a file of public keys, in bytes.
const maxKeys = 64 << 10

// ReadKeys reads a file of public keys in minisign's format, one line of base64 each. It
// skips comments ("untrusted comment: …" and lines that begin with #) and empty
// lines, so files of minisign can be concatenated. Any other line is an error, and
// so is a file without a key.
func ReadKeys(file string) ([]minisign.PublicKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the release keys: %w", err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("reading the release keys: %s: %w", file, err)
	}
	return keys, nil
}

// parseKeys parses the text of such a file.
func parseKeys(text []byte) (keys []minisign.PublicKey, err error) {
	if len(text) > maxKeys {
		return nil, fmt.Errorf("more than %d bytes", maxKeys)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "untrusted comment:") {
			continue
		}
		var key minisign.PublicKey
		if err := key.UnmarshalText([]byte(line)); err != nil {
			return nil, fmt.Errorf("line %d is no public key of minisign's", n)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in it")
	}
	return keys, nil
}

// MakeKeys writes a new pair of keys to two files, as minisign does. password ""
// leaves the private key open.
func MakeKeys(private, public, password string) (minisign.PublicKey, error) {
	return makeKeys(private, public, password, minisign.EncryptKey)
}

func makeKeys(private, public, password string, encrypt func(string, minisign.PrivateKey) ([]byte, error)) (minisign.PublicKey, error) {
	publicKey, privateKey, err := minisign.GenerateKey(nil)
	if err != nil {
		return publicKey, err
	}
	secret, err := privateKey.MarshalText()
	if password != "" {
		secret, err = encrypt(password, privateKey)
	}
	if err != nil {
		return publicKey, err
	}
	open, err := publicKey.MarshalText()
	if err == nil {
		err = durable.WriteFile(private, append(secret, '\n'), 0o600)
	}
	if err == nil {
		err = durable.WriteFile(public, append(open, '\n'), 0o644)
	}
	return publicKey, err
}

// ReadPrivateKey reads a private key as minisign writes it. It asks for the password of
// one that has one.
func ReadPrivateKey(file string, ask func() (password string, err error)) (key minisign.PrivateKey, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return key, hint.Add(fmt.Errorf("reading the private key: %w", err), "name it with --key; edge release keygen makes one")
	}
	if !minisign.IsEncrypted(text) {
		if err := key.UnmarshalText(text); err != nil {
			return key, hint.Add(fmt.Errorf("reading the private key: %s: %w", file, err), "it must be a private key of minisign's")
		}
		return key, nil
	}
	password, err := ask()
	if err != nil {
		return key, err
	}
	if key, err = minisign.DecryptKey(password, text); err != nil {
		return key, hint.Add(fmt.Errorf("reading the private key: %s: %w", file, err), "is the password right?")
	}
	return key, nil
}
