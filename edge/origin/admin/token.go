package admin

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"partneredge/store/durable"
)

// minToken is the shortest admin token that is taken, in characters.
const minToken = 16

// openToken reads the admin token, and makes one when there is no file: 32
// random bytes in hex.
func openToken(path string, log *slog.Logger) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		if err := durable.CreateFile(path, []byte(newToken()), 0o600); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("making the admin token: %w", err)
		}
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("reading the admin token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minToken || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("reading the admin token: %s must hold one word of at least %d characters", path, minToken)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn("the admin token can be read by others", "file", path, "mode", info.Mode().Perm().String())
	}
	return token, nil
}

func newToken() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(random[:])
}
