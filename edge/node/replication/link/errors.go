package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
)

// ErrInvalid is the error of a request that makes no sense to the origin.
var ErrInvalid = errors.New("origin finds the request invalid")

// ErrRefused is the error of a request that the key in whose name it was made does
// not grant at the origin, which may know of a revocation that the node does not.
var ErrRefused = errors.New("origin refuses the request in the name of its key")

// ErrInternal is the error of a request at which the origin failed, though it can be
// reached, for any reason that it has no other word for: a damaged row, say, which stays, or
// a fault of its database, which goes by. It comes with host.ErrUnavailable.
var ErrInternal = errors.New("origin failed")

// Errors that keep a node from its origin until an operator acts.
var (
	// ErrCredentials means that the file of credentials is missing or is not what
	// the origin gave.
	ErrCredentials = errors.New("credentials cannot be used")
	// ErrRegion means that the credentials were given to a node of another region.
	ErrRegion = errors.New("credentials are of another region")
	// ErrNotEnrolled means that the origin does not know the credentials, or has
	// revoked them.
	ErrNotEnrolled = errors.New("origin refuses the node's credentials")
	// ErrCertificate means that the origin's certificate is for another name, or
	// signed by nobody whom the node trusts.
	ErrCertificate = errors.New("origin's certificate cannot be trusted")
	// ErrVersion means that node and origin are more than one version of the
	// messages apart.
	ErrVersion = errors.New("origin speaks a version that is too far from this node's")
)

var permanent = []error{ErrNotEnrolled, ErrCertificate, ErrVersion}

// Permanent reports whether waiting is of no use against err.
func Permanent(err error) bool { return permanentIndex(err) >= 0 }

func permanentIndex(err error) int {
	return slices.IndexFunc(permanent, func(known error) bool { return errors.Is(err, known) })
}

// classify wraps an error of NATS in the one of this package that it means, if
// there is one.
func classify(err error) error {
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
