// A guest without a runtime or a library: what the ABI asks for, and no more.
// It answers with how often it was called, which must always be the same.
#include <stdint.h>

static uint8_t input[96 << 10];

// The frame of a response (package abi): version, 200, no strings, a body.
static struct __attribute__((packed)) {
	uint8_t version, reserved;
	uint16_t headers, status, reserved2;
	uint32_t scopes, handler, key, account, environment, param, length;
	char body[8];
} response = {.version = 1, .status = 200, .length = sizeof response.body, .body = "called 0"};

static double average; // uses floating point, and a table
static uint32_t twice(uint32_t n) { return 2 * n; }
static uint32_t once(uint32_t n) { return n; }
static uint32_t (*volatile choice[2])(uint32_t) = {once, twice};

__attribute__((export_name("edge_input"))) int64_t edge_input(void) {
	return (int64_t)(uintptr_t)input << 32 | sizeof input;
}

__attribute__((export_name("edge_handle"))) int64_t edge_handle(int32_t n) {
	uint32_t sum = 0;
	for (int32_t i = 0; i < n; i++) {
		sum += choice[i & 1](input[i]);
	}
	average = n ? (double)sum / n : 0;
	response.body[7]++;
	response.reserved2 = average < 0;
	return (int64_t)(uintptr_t)&response << 32 | sizeof response;
}
