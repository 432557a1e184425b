package localwebhook

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"partneredge/edge/hint"
	"partneredge/store/durable"
)

// SecretFile returns the file in which a user's signing secret is kept where no other
// is named.
func SecretFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("finding the signing secret: %w", err)
	}
	return filepath.Join(dir, "partneredge", "webhook-secret"), nil
}

// Secret returns the signing secret in a file. It makes the file, readable by its owner
// only, with a new one where it is missing: so a receiver that was told the secret once
// still verifies tomorrow.
func Secret(file string) (string, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return makeSecret(file)
	}
	if err != nil {
		return "", hint.Add(fmt.Errorf("reading the signing secret: %w", err), "give --secret TEXT or another --secret-file FILE")
	}
	text := strings.TrimSpace(string(content))
	if text == "" || len(text) > 1024 || strings.ContainsAny(text, "\n\r\x00") {
		return "", hint.Add(fmt.Errorf("reading the signing secret: %s does not hold one line of text", file), "remove the file to have a new one made")
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(file, 0o600); err != nil {
			return "", hint.Add(fmt.Errorf("closing %s to others: %w", file, err), "chmod 600 it, or name another with --secret-file")
		}
	}
	return text, nil
}

func makeSecret(file string) (string, error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	text := hex.EncodeToString(random[:])
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", hint.Add(fmt.Errorf("keeping the signing secret: %w", err), "give --secret TEXT or another --secret-file FILE")
	}
	if err := durable.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		return "", hint.Add(fmt.Errorf("keeping the signing secret: %w", err), "give --secret TEXT or another --secret-file FILE")
	}
	return text, nil
}
