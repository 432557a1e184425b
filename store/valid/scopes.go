package valid

import (
	"slices"

	"partneredge/wasm/abi"
)

// Scopes returns the scopes of a key, each once. It refuses names that are neither the
// contract's nor of the form of an own scope (x:quotes), and more than
// abi.MaxOwnScopes of the latter.
func Scopes(names []string) ([]string, error) {
	out := make([]string, 0, len(names))
	own := 0
	for _, name := range names {
		switch {
		case slices.Contains(out, name):
			continue
		case abi.IsOwnScope(name):
			own++
		case abi.ScopeOf(name) == 0:
			return nil, Errorf("scope is neither one of the contract's nor x: and 1 to 40 of a to z, 0 to 9 and hyphens")
		}
		out = append(out, name)
	}
	if own > abi.MaxOwnScopes {
		return nil, Errorf("scopes hold more than %d own ones", abi.MaxOwnScopes)
	}
	return out, nil
}
