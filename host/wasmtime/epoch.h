// What the Go package of wasmtime leaves out of its C API (wasmtime/store.h and
// wasmtime/error.h of wasmtime 44).

#include <stdint.h>

typedef struct wasmtime_store wasmtime_store_t;
typedef struct wasmtime_context wasmtime_context_t;
typedef struct wasmtime_error wasmtime_error_t;

extern wasmtime_error_t *wasmtime_error_new(const char *message);

extern void wasmtime_store_epoch_deadline_callback(
	wasmtime_store_t *store,
	wasmtime_error_t *(*func)(wasmtime_context_t *context, void *data, uint64_t *delta, uint8_t *kind),
	void *data, void (*finalizer)(void *));

// edge_set_callback makes a store call edgeEpochsLeft, with the handle, when its epochs
// are over.
void edge_set_callback(void *store, uintptr_t handle);
