package command

import (
	"aead.dev/minisign"

	"partneredge/edge/release"
)

// releaseTrust is which releases a node runs: what its own configuration says of
// it, which nobody else can change.
type releaseTrust struct{ file, least string }

func (t *releaseTrust) flags(f *flags) {
	f.StringVar(&t.file, "release-keys", "", "`FILE` of the operators' minisign public keys, one a line: releases that none of them signed are refused (default: all are)")
	f.StringVar(&t.least, "min-release", "", "least `VERSION` of a release that is run (default: any)")
}

func (t *releaseTrust) keys() ([]minisign.PublicKey, error) {
	if t.file == "" {
		return nil, nil
	}
	keys, err := release.ReadKeys(t.file)
	return keys, hint(err, "minisign -G makes a pair of keys; give the public one")
}
