package guest

import "unsafe"

//go:wasmexport edge_input
func exportInput() int64 { return span(input[:]) }

//go:wasmexport edge_handle
func exportHandle(n int32) int64 { return span(handle(n)) }

// span returns address<<32 | length of b, 0 for nil.
func span(b []byte) int64 {
	return int64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))<<32 | int64(len(b))
}

//go:wasmimport edge call
//go:noescape
func importCall(op int32, ptr unsafe.Pointer, n int32, out unsafe.Pointer, capacity int32) int32

//go:wasmimport edge log
//go:noescape
func importLog(level int32, ptr unsafe.Pointer, n int32)
