//go:build !wasip1

package guest

import (
	"unsafe"

	"partneredge/wasm/abi"
)

// Outside a sandbox there is no host: every operation is denied, and nothing is
// logged.
func importCall(int32, unsafe.Pointer, int32, unsafe.Pointer, int32) int32 {
	return int32(abi.CodeDenied)
}

func importLog(int32, unsafe.Pointer, int32) {}
