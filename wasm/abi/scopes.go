package abi

import "strings"

// Scopes is a set of the contract's scopes, one bit each.
type Scopes uint32

// Scopes of the contract.
const (
	ReadAgent Scopes = 1 << iota
	ReadCoaching
	ReadSentinels
	WriteWebhooks
	WriteLeads

	AllScopes = ReadAgent | ReadCoaching | ReadSentinels | WriteWebhooks | WriteLeads
)

// Names of the contract's scopes.
const (
	ScopeReadAgent     = "read:agent"
	ScopeReadCoaching  = "read:coaching"
	ScopeReadSentinels = "read:sentinels"
	ScopeWriteWebhooks = "write:webhooks"
	ScopeWriteLeads    = "write:leads"
)

// ScopeNames are the names of the contract's scopes, each at the place of its bit.
var ScopeNames = [...]string{ScopeReadAgent, ScopeReadCoaching, ScopeReadSentinels, ScopeWriteWebhooks, ScopeWriteLeads}

// ScopeOf returns the bit of one of the contract's scopes, 0 for any other name.
func ScopeOf(name string) Scopes {
	for i, known := range ScopeNames {
		if name == known {
			return 1 << i
		}
	}
	return 0
}

// An own scope is one that an operator makes up for the routes of a module, such as
// x:quotes: OwnPrefix, then 1 to 40 of a to z, 0 to 9 and hyphens. A key has at most
// MaxOwnScopes of them. Their names are joined by spaces wherever a principal or a key
// carries them: "x:quotes x:rates".
const (
	OwnPrefix    = "x:"
	MaxOwnScopes = 32
	maxOwnName   = 40 // bytes after OwnPrefix
)

// IsOwnScope reports whether name has the form of an own scope.
func IsOwnScope(name string) bool {
	rest, ok := strings.CutPrefix(name, OwnPrefix)
	return ok && rest != "" && len(rest) <= maxOwnName && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// HasOwn reports whether own, own scopes joined by spaces, holds the scope name.
func HasOwn(own, name string) bool {
	for own != "" {
		var one string
		if one, own, _ = strings.Cut(own, " "); one == name {
			return true
		}
	}
	return false
}

// SplitScopes returns a key's scopes as a gate holds them: the bits of the contract's
// and the own ones joined by spaces. Names that are neither grant nothing and are left
// out, as are own ones beyond MaxOwnScopes.
func SplitScopes(names []string) (bits Scopes, own string) {
	count := 0
	for _, name := range names {
		bits |= ScopeOf(name)
		if !IsOwnScope(name) || HasOwn(own, name) || count == MaxOwnScopes {
			continue
		}
		if count++; own != "" {
			own += " "
		}
		own += name
	}
	return bits, own
}
