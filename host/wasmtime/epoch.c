//go:build wasmtime

#include "epoch.h"
#include "_cgo_export.h"

static wasmtime_error_t *ask(wasmtime_context_t *context, void *data, uint64_t *delta, uint8_t *kind) {
	*delta = edgeLeft((uintptr_t)data);
	return *delta ? 0 : wasmtime_error_new("interrupted");
}

void edge_ask(void *store, uintptr_t handle) {
	wasmtime_store_epoch_deadline_callback(store, ask, (void *)handle, 0);
}
