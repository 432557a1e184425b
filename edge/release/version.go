package release

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
)

// CheckVersion returns an error unless v is a version of a release:
// MAJOR.MINOR.PATCH of Semantic Versioning 2.0, optionally with a pre-release such
// as 1.4.0-rc.1. Build metadata is refused, since two releases that differ in
// nothing else would be equally new.
func CheckVersion(v string) error {
	if len(v) > 64 || strings.HasPrefix(v, "v") || !semver.IsValid("v"+v) || semver.Canonical("v"+v) != "v"+v {
		return fmt.Errorf("%w: %q is no version such as 1.4.0", ErrMalformed, v)
	}
	return nil
}

// compareVersions returns -1, 0 or 1 if version a is older than b, the same, or
// newer. A malformed version is older than every version.
func compareVersions(a, b string) int { return semver.Compare("v"+a, "v"+b) }
