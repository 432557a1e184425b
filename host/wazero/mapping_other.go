//go:build !linux

package wazero

import "errors"

const mappable = false

func mapFile(string, []byte) error { return errors.ErrUnsupported }

func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }
