//go:build wasmtime

#include "epoch.h"
#include "_cgo_export.h"

static wasmtime_error_t *callback(wasmtime_context_t *context, void *data, uint64_t *delta, uint8_t *kind) {
	*delta = edgeEpochsLeft((uintptr_t)data);
	return *delta ? 0 : wasmtime_error_new("interrupted");
}

void edge_set_callback(void *store, uintptr_t handle) {
	wasmtime_store_epoch_deadline_callback(store, callback, (void *)handle, 0);
}
