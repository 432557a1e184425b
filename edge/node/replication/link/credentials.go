package link

import (
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"partneredge/edge/wire"
	"partneredge/store/durable"
)

// readCredentials returns the id of the node that the credentials are for, and the
// address that they allow. They must be for its region; those that an older origin made
// name none, and allow the id alone as the address. A file that others can read is
// warned of.
func readCredentials(file, region string, log *slog.Logger) (id, address string, err error) {
	text, exposed, err := durable.ReadSecret(file)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrCredentials, err)
	}
	if exposed != 0 {
		log.Warn(fmt.Sprintf("others can read or change the node's credentials: chmod o=,g-w '%s', once its owner or group is the node's; in Kubernetes defaultMode: 0440", file),
			"file", file, "mode", fmt.Sprintf("%04o", exposed))
	}
	wrong := func(what string) (string, string, error) {
		return "", "", fmt.Errorf("%w: %s %s", ErrCredentials, file, what)
	}
	token, _ := jwt.ParseDecoratedJWT(text) // "" if there is none, which is no claims
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return wrong("holds no NATS credentials")
	}
	pair, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return wrong("holds no private key")
	}
	defer pair.Wipe()
	if public, err := pair.PublicKey(); err != nil || public != claims.Subject {
		return wrong("holds the private key of others")
	}
	if claims.Name == "" {
		return wrong("names no node")
	}
	for _, tag := range claims.Tags {
		if of, tagged := strings.CutPrefix(tag, wire.RegionTag); tagged && of != region {
			return "", "", fmt.Errorf("%w: %s is for a node in %s, not in %s", ErrRegion, file, of, region)
		}
	}
	id, address = claims.Name, wire.RegionalAddress(region, claims.Name)
	if !claims.Pub.Allow.Contains(wire.Prefix + address + ".>") {
		address = id
	}
	return id, address, nil
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
