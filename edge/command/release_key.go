package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"aead.dev/minisign"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"partneredge/edge/release"
)

// passwordVariable holds the password of the private key in scripts.
const passwordVariable = "EDGE_RELEASE_PASSWORD"

func defineKeygen(flags *pflag.FlagSet) handler {
	private := flags.String("key", "release.key", "`FILE` of the private key, which is made")
	public := flags.String("pub", "release.pub", "`FILE` of the public key, for the nodes' --release-keys, which is made")
	open := flags.Bool("no-password", false, "leave the private key open, where something else protects it")
	return func(_ context.Context, c *invocation) error {
		for _, file := range []string{*private, *public} {
			if _, err := os.Lstat(file); err == nil {
				return hint(fmt.Errorf("making keys: %s is there already", file), "name other files with --key and --pub")
			}
		}
		password := ""
		if !*open {
			var err error
			if password, err = askPassword(c.stderr, true); err != nil {
				return err
			}
		}
		key, err := makeKeys(*private, *public, password)
		if err != nil {
			return fmt.Errorf("making keys: %w", err)
		}
		id := release.KeyID(key.ID())
		fmt.Fprintf(c.stderr, "key %s made: %s signs, and stays with you; nodes take %s with --release-keys\n", id, *private, *public)
		return c.Line(map[string]any{"key_id": id, "public_key": key.String(), "key_file": *private, "public_key_file": *public}, key.String())
	}
}

// makeKeys writes a pair of keys as minisign does; password "" leaves the private
// one open.
func makeKeys(private, public, password string) (minisign.PublicKey, error) {
	publicKey, privateKey, err := minisign.GenerateKey(nil)
	if err != nil {
		return publicKey, err
	}
	secret, err := privateKey.MarshalText()
	if password != "" {
		secret, err = minisign.EncryptKey(password, privateKey)
	}
	if err != nil {
		return publicKey, err
	}
	open, err := publicKey.MarshalText()
	if err != nil {
		return publicKey, err
	}
	return publicKey, errors.Join(newFile(private, append(secret, '\n'), 0o600), newFile(public, append(open, '\n'), 0o644))
}

// newFile writes a file that must not be there.
func newFile(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// readSigningKey reads a private key as minisign writes it.
func readSigningKey(file string, stderr io.Writer) (key minisign.PrivateKey, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return key, hint(fmt.Errorf("reading the private key: %w", err), "name it with --key; edge release keygen makes one")
	}
	if !minisign.IsEncrypted(text) {
		if err := key.UnmarshalText(text); err != nil {
			return key, hint(fmt.Errorf("reading the private key: %s: %w", file, err), "it must be a private key of minisign's")
		}
		return key, nil
	}
	password, err := askPassword(stderr, false)
	if err != nil {
		return key, err
	}
	if key, err = minisign.DecryptKey(password, text); err != nil {
		return key, hint(fmt.Errorf("reading the private key: %s: %w", file, err), "is the password right?")
	}
	return key, nil
}

// askPassword returns the private key's password: from the environment, or asked
// for at the terminal, twice where it is new.
func askPassword(stderr io.Writer, fresh bool) (string, error) {
	if password := os.Getenv(passwordVariable); password != "" {
		return password, nil
	}
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		return "", usagef("set "+passwordVariable+", or run this at a terminal", "the private key's password is not given")
	}
	ask := func(what string) (string, error) {
		fmt.Fprint(stderr, what)
		text, err := term.ReadPassword(in)
		fmt.Fprintln(stderr)
		return string(text), err
	}
	password, err := ask("Password of the private key: ")
	if err != nil {
		return "", fmt.Errorf("reading the password: %w", err)
	}
	if !fresh {
		return password, nil
	}
	again, err := ask("The same again: ")
	switch {
	case err != nil:
		return "", fmt.Errorf("reading the password: %w", err)
	case password == "":
		return "", usagef("--no-password makes a key without one", "the password is empty")
	case again != password:
		return "", usagef("nothing was made: try again", "the passwords differ")
	}
	return password, nil
}
