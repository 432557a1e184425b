// Package vectors holds test vectors of the signatures of webhooks as JSON, for
// receivers in any language.
package vectors

import (
	"bytes"
	_ "embed"
)

//go:embed signatures.json
var signatures []byte

// Signatures returns a copy of signatures.json: a secret, the time at which to judge,
// and cases with a header (null: the request has none), a body and whether it is
// valid.
func Signatures() []byte { return bytes.Clone(signatures) }
