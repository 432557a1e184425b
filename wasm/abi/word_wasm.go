package abi

import "unsafe"

// These functions read and write words at any address: loads and stores of
// WebAssembly are little-endian and need no alignment. For other architectures
// Go's compiler merges the byte accesses of encoding/binary; for this one it
// does not.

func u16(b []byte) uint16 { return *(*uint16)(unsafe.Pointer((*[2]byte)(b))) }
func u32(b []byte) uint32 { return *(*uint32)(unsafe.Pointer((*[4]byte)(b))) }
func u64(b []byte) uint64 { return *(*uint64)(unsafe.Pointer((*[8]byte)(b))) }

func putU16(b []byte, v uint16) { *(*uint16)(unsafe.Pointer((*[2]byte)(b))) = v }
func putU32(b []byte, v uint32) { *(*uint32)(unsafe.Pointer((*[4]byte)(b))) = v }
func putU64(b []byte, v uint64) { *(*uint64)(unsafe.Pointer((*[8]byte)(b))) = v }
