//go:build !linux

package wazero

import "errors"

const mappable = false

func mapFile(string, []byte) error { return errors.ErrUnsupported }
