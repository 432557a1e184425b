package pipeline

import (
	"strings"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
)

// Reasons of a 401.
const (
	missingToken = "missing_bearer_token"
	malformedKey = "malformed_api_key"
	unknownKey   = "unknown_api_key"
	revokedKey   = "api_key_revoked"
	keyExpired   = "api_key_expired"
	graceExpired = "api_key_grace_expired"
)

// authenticate returns the record of the request's key, or the reason to refuse
// it, or an error if the host cannot tell now.
func authenticate(req *abi.Request, host Host) (key abi.Key, reason string, err error) {
	token, reason := bearer(req)
	if reason != "" {
		return key, reason, nil
	}
	if !apikey.Valid(token) {
		return key, malformedKey, nil
	}
	key, err = host.Key(token)
	if err == abi.CodeNotFound {
		return key, unknownKey, nil
	} else if err != nil {
		return key, "", err
	}
	expired := key.Expires != 0 && req.Now >= key.Expires
	switch {
	case key.Revoked != 0: // not compared: the origin's clock may be ahead of this one
		return key, revokedKey, nil
	case key.GraceUntil != 0 && (expired || req.Now >= key.GraceUntil): // a rotated key ends as one
		return key, graceExpired, nil
	case expired:
		return key, keyExpired, nil
	}
	return key, "", nil
}

// bearer returns the token of the Authorization header (RFC 6750, section 2.1);
// the case of the scheme does not matter. Several such headers are malformed, as
// it would be a guess which one counts. Another scheme, or no header, is a
// missing token.
func bearer(req *abi.Request) (token, reason string) {
	value, count := req.Header("authorization")
	if count > 1 {
		return "", malformedKey
	}
	const scheme = "bearer"
	if len(value) < len(scheme) || !strings.EqualFold(value[:len(scheme)], scheme) {
		return "", missingToken
	}
	rest := value[len(scheme):]
	token = strings.Trim(rest, " ")
	if token == "" {
		return "", missingToken
	}
	if rest[0] != ' ' {
		return "", missingToken // a scheme that only begins like this one
	}
	return token, ""
}
