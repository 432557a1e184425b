package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// ErrNoOrigin ends the start of a node that holds nothing.
var ErrNoOrigin = errors.New("origin is not reached")

// What stands between a node and its origin until somebody does something about
// it. A node that holds records serves them meanwhile; Start of one that holds
// none fails at once.
var (
	// ErrCredentials: the file of credentials is missing or is not what the
	// origin gave.
	ErrCredentials = errors.New("credentials cannot be used")
	// ErrNotEnrolled: the origin does not know the credentials, or has revoked
	// them.
	ErrNotEnrolled = errors.New("origin refuses the node's credentials")
	// ErrCertificate: the origin's certificate is not signed by whom the node
	// trusts, or is for another name.
	ErrCertificate = errors.New("origin's certificate cannot be trusted")
	// ErrVersion: node and origin are more than one version of messages apart.
	ErrVersion = errors.New("origin speaks a version that is too far from this node's")
)

// troubleOf is one of the errors above where err, of a try to connect, is of its
// kind, and err itself where it is not.
func troubleOf(err error) error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	for _, refused := range []error{nats.ErrAuthorization, nats.ErrAuthRevoked, nats.ErrAuthExpired, nats.ErrAccountAuthExpired} {
		if errors.Is(err, refused) {
			return fmt.Errorf("%w: %w", ErrNotEnrolled, err)
		}
	}
	return err
}

// lasting tells whether waiting does not help against err.
func lasting(err error) bool {
	return errors.Is(err, ErrNotEnrolled) || errors.Is(err, ErrCertificate) || errors.Is(err, ErrVersion)
}

// readCredentials returns the id of the node that the credentials are for.
func readCredentials(file string) (id string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	wrong := func(what string) error { return fmt.Errorf("%w: %s %s", ErrCredentials, file, what) }
	token, err := jwt.ParseDecoratedJWT(text)
	if err != nil {
		return "", wrong("holds no NATS credentials")
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return "", wrong("holds no NATS credentials")
	}
	pair, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return "", wrong("holds no private key")
	}
	defer pair.Wipe()
	if public, err := pair.PublicKey(); err != nil || public != claims.Subject {
		return "", wrong("holds the private key of others")
	}
	if claims.Name == "" {
		return "", wrong("names no node")
	}
	return claims.Name, nil
}

// checkCA holds that there is a certificate in the file.
func checkCA(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Errorf("%w: %s holds no certificate in PEM", ErrCertificate, file)
	}
	return nil
}
