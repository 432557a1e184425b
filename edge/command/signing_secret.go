package command

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"partneredge/store/durable"
)

// secretFlags are the flags that say which secret events are signed with on a
// developer's machine.
type secretFlags struct{ text, file string }

func (s *secretFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.text, "secret", "", "`TEXT` of the signing secret (default: that of --secret-file)")
	flags.StringVar(&s.file, "secret-file", "", "`FILE` of the signing secret, made with a new one where it is missing (default: webhook-secret in the user's folder of configuration)")
}

// namedSecret is a signing secret and where it came from.
type namedSecret struct {
	text   string
	origin string // "--secret", or "the secret in FILE"
}

// get returns the secret of --secret, or of the file, which is made, readable by its
// owner only, with a new one where it is missing: so a receiver that was told the secret
// once still verifies tomorrow.
func (s *secretFlags) get(cmd *cobra.Command) (namedSecret, error) {
	switch {
	case cmd.Flags().Changed("secret") && s.file != "":
		return namedSecret{}, misused(cmd, "--secret and --secret-file exclude each other")
	case cmd.Flags().Changed("secret") && s.text == "":
		return namedSecret{}, misused(cmd, "--secret is empty")
	case s.text != "":
		return namedSecret{s.text, "the secret of --secret"}, nil
	}
	file := s.file
	if file == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return namedSecret{}, hint(fmt.Errorf("finding the signing secret: %w", err), "give --secret TEXT or --secret-file FILE")
		}
		file = filepath.Join(dir, "partneredge", "webhook-secret")
	}
	text, err := rememberedSecret(file)
	return namedSecret{text, "the secret in " + file}, err
}

// rememberedSecret returns the secret in a file, which it makes where it is missing.
func rememberedSecret(file string) (string, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return makeSecret(file)
	}
	if err != nil {
		return "", hint(fmt.Errorf("reading the signing secret: %w", err), "give --secret TEXT or another --secret-file FILE")
	}
	text := strings.TrimSpace(string(content))
	if text == "" || len(text) > 1024 || strings.ContainsAny(text, "\n\r\x00") {
		return "", hint(fmt.Errorf("reading the signing secret: %s does not hold one line of text", file), "remove the file to have a new one made")
	}
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(file, 0o600); err != nil {
			return "", hint(fmt.Errorf("closing %s to others: %w", file, err), "chmod 600 it, or name another with --secret-file")
		}
	}
	return text, nil
}

func makeSecret(file string) (string, error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	text := hex.EncodeToString(random[:])
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", hint(fmt.Errorf("keeping the signing secret: %w", err), "give --secret TEXT or another --secret-file FILE")
	}
	if err := durable.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		return "", hint(fmt.Errorf("keeping the signing secret: %w", err), "give --secret TEXT or another --secret-file FILE")
	}
	return text, nil
}
