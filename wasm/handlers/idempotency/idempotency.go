// Package idempotency reads the idempotency key of a request.
package idempotency

import (
	"hash/fnv"

	"partneredge/wasm/abi"
	"partneredge/wasm/answer"
)

// Key returns the Idempotency-Key of a request, "" when it has none. If ok is false,
// the key is none that can be taken, and the request has been refused.
func Key(req *abi.Request, resp *abi.Response) (key string, ok bool) {
	key, keys := req.Header("idempotency-key")
	if keys > 1 || keys == 1 && !abi.IsOnceKey(key) {
		answer.Error(resp, 400, "invalid_idempotency_key", "")
		return "", false
	}
	return key, true
}

// Digest returns a hash that differs for different bodies. It need not be
// cryptographic: a partner who constructs two bodies with the same digest only
// gets the answer to the first of them twice.
func Digest(body []byte) string {
	h := fnv.New128a()
	_, _ = h.Write(body) // documented never to fail
	return string(h.Sum(nil))
}

// Replayed says in the answer that it is the one to an earlier request with the same key.
func Replayed(resp *abi.Response) { answer.Header(resp, "idempotent-replayed", "true") }

// Conflict refuses a request whose key was used for another body.
func Conflict(resp *abi.Response) { answer.Error(resp, 409, "idempotency_conflict", "") }
