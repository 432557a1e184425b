package link

import (
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"partneredge/edge/wire"
)

// readCredentials returns the id of the node that the credentials are for. They must
// be for its region; those that an older origin made name none.
func readCredentials(file, region string) (id string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	wrong := func(what string) error { return fmt.Errorf("%w: %s %s", ErrCredentials, file, what) }
	token, _ := jwt.ParseDecoratedJWT(text) // "" if there is none, which is no claims
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
	for _, tag := range claims.Tags {
		if of, tagged := strings.CutPrefix(tag, wire.RegionTag); tagged && of != region {
			return "", fmt.Errorf("%w: %s is for a node in %s, not in %s", ErrRegion, file, of, region)
		}
	}
	return claims.Name, nil
}

// checkCA returns an error if the file holds no certificate.
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
