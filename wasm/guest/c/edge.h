// The boundary between a module and its host, for modules written in C without a
// library. The layout of every frame is in the Go package abi, which lies in the module's
// folder to be read; this file follows it. Include it in one file, and define edge_answer
// there:
//
//	#include "edge.h"
//
//	void edge_answer(const edge_request *req, edge_response *resp) {
//		resp->status = 200;
//		edge_text(resp, "{}");
//	}
//
// EDGE_BODY_SIZE and EDGE_HEAD_SIZE may be defined before it is included.
//
// Calls never overlap, and each starts from the memory image that the host took after
// the warm-up: what a request leaves in memory is gone for the next one.
#ifndef EDGE_H
#define EDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	EDGE_VERSION = 1,
	EDGE_INPUT_SIZE = 128 << 10, // holds every request, in bytes
};

// Room for the body of a response, in bytes. A host takes up to 4 MiB in all.
#ifndef EDGE_BODY_SIZE
#define EDGE_BODY_SIZE (64 << 10)
#endif

// Room for the headers of a response, in bytes.
#ifndef EDGE_HEAD_SIZE
#define EDGE_HEAD_SIZE (4 << 10)
#endif

// edge_bytes is a text or a body. It is not ended by a zero.
typedef struct {
	const uint8_t *at;
	uint32_t len;
} edge_bytes;

// edge_request is a request. Its texts lie in the input buffer, which the host
// overwrites with the next request.
typedef struct {
	int64_t now;           // microseconds since the Unix epoch, UTC
	const uint8_t *random; // 32 bytes, fresh for every request
	edge_bytes method;
	edge_bytes path;  // as sent: escaped, without the query
	edge_bytes query; // as sent, without "?"
	edge_bytes client;
	edge_bytes key_id, account_id;
	edge_bytes environment; // "live" or "test"
	uint16_t header_count;
	edge_bytes headers; // the frame's part with names and values: see edge_header
	edge_bytes body;
} edge_request;

// edge_response is the answer. The host adds content-type: application/json. What does
// not fit its buffers makes the answer a 500, unless edge_error answers something else.
typedef struct {
	uint16_t status;
	uint16_t header_count;
	uint32_t body_len, head_len;
	bool full;
	uint8_t head[EDGE_HEAD_SIZE];
	uint8_t body[EDGE_BODY_SIZE];
} edge_response;

// edge_answer is the module's own: it answers a request.
void edge_answer(const edge_request *req, edge_response *resp);

// edge_call runs an operation of the host on a frame; package abi lists them. The
// result is the number of bytes written to out, or negative: -1 not granted by the
// manifest, or the key lacks the scope, -2 not found, -3 unavailable, -4 a limit is reached,
// -5 the frame is malformed or invalid, -6 failed, -65536-n: n bytes are needed at out.
__attribute__((import_module("edge"), import_name("call")))
int32_t edge_call(int32_t op, const void *frame, int32_t len, void *out, int32_t cap);

// edge_log writes one line to the host's log. level: -4 debug, 0 info, 4 warn, 8 error.
__attribute__((import_module("edge"), import_name("log")))
void edge_log(int32_t level, const char *line, int32_t len);

static inline void edge_copy(uint8_t *to, const void *from, uint32_t n) { __builtin_memcpy(to, from, n); }

static inline uint32_t edge_length(const char *s) {
	uint32_t n = 0;
	while (s[n]) n++;
	return n;
}

// edge_is reports whether b is the text s.
static inline bool edge_is(edge_bytes b, const char *s) {
	for (uint32_t i = 0; i < b.len; i++) {
		if (!s[i] || b.at[i] != (uint8_t)s[i]) return false;
	}
	return !s[b.len];
}

static inline uint32_t edge_u32(const uint8_t *p) {
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// edge_next reads the next text of a frame into *b, and reports whether there was one.
static inline bool edge_next(edge_bytes *frame, edge_bytes *b) {
	if (frame->len < 4) return false;
	uint32_t n = edge_u32(frame->at);
	if (n > frame->len - 4) return false;
	*b = (edge_bytes){frame->at + 4, n};
	frame->at += 4 + n;
	frame->len -= 4 + n;
	return true;
}

// edge_header returns the last value of a header that the manifest names; its name is in
// lower case. Without one, at is NULL.
static inline edge_bytes edge_header(const edge_request *req, const char *name) {
	edge_bytes rest = req->headers, key, value, found = {NULL, 0};
	while (edge_next(&rest, &key) && edge_next(&rest, &value)) {
		if (edge_is(key, name)) found = value;
	}
	return found;
}

// edge_param returns the parameter of the route's path, its name in braces: "{id}".
static inline edge_bytes edge_param(const edge_request *req, const char *name) { return edge_header(req, name); }

static inline void edge_append(edge_response *resp, const void *b, uint32_t n) {
	if (n > sizeof resp->body - resp->body_len) {
		resp->full = true;
		return;
	}
	edge_copy(resp->body + resp->body_len, b, n);
	resp->body_len += n;
}

// edge_text appends text to the body as it is.
static inline void edge_text(edge_response *resp, const char *s) { edge_append(resp, s, edge_length(s)); }

// edge_character returns how many bytes the character at i takes, 0 where it is not UTF-8.
static inline uint32_t edge_character(edge_bytes b, uint32_t i) {
	uint8_t c = b.at[i];
	uint32_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
	if (n > b.len - i) return 0;
	for (uint32_t k = 1; k < n; k++) {
		if ((b.at[i + k] & 0xc0) != 0x80) return 0;
	}
	// Nor are longer forms than needed, halves of surrogate pairs, and what is beyond U+10FFFF.
	if ((c == 0xe0 && b.at[i + 1] < 0xa0) || (c == 0xed && b.at[i + 1] > 0x9f) ||
	    (c == 0xf0 && b.at[i + 1] < 0x90) || (c == 0xf4 && b.at[i + 1] > 0x8f)) return 0;
	return n;
}

// edge_string appends a JSON string to the body. A byte that is not UTF-8 becomes U+FFFD.
static inline void edge_string(edge_response *resp, edge_bytes b) {
	static const char hex[] = "0123456789abcdef";
	edge_text(resp, "\"");
	for (uint32_t i = 0; i < b.len; i++) {
		uint8_t c = b.at[i];
		uint32_t n = edge_character(b, i);
		if (n == 0) {
			edge_text(resp, "\xef\xbf\xbd");
		} else if (n > 1) {
			edge_append(resp, b.at + i, n);
			i += n - 1;
		} else if (c == '"' || c == '\\') {
			edge_append(resp, (uint8_t[]){'\\', c}, 2);
		} else if (c < 0x20) {
			edge_append(resp, (uint8_t[]){'\\', 'u', '0', '0', (uint8_t)hex[c >> 4], (uint8_t)hex[c & 15]}, 6);
		} else {
			edge_append(resp, &c, 1);
		}
	}
	edge_text(resp, "\"");
}

// edge_number appends a whole number to the body.
static inline void edge_number(edge_response *resp, int64_t n) {
	uint8_t digits[20];
	uint32_t at = sizeof digits;
	uint64_t rest = n < 0 ? -(uint64_t)n : (uint64_t)n;
	do {
		digits[--at] = (uint8_t)('0' + rest % 10);
	} while (rest /= 10);
	if (n < 0) digits[--at] = '-';
	edge_append(resp, digits + at, sizeof digits - at);
}

static inline void edge_put(uint8_t *to, uint32_t n) {
	edge_copy(to, (uint8_t[]){(uint8_t)n, (uint8_t)(n >> 8), (uint8_t)(n >> 16), (uint8_t)(n >> 24)}, 4);
}

// edge_add_header adds a header to the answer; its name is in lower case.
static inline void edge_add_header(edge_response *resp, const char *name, const char *value) {
	const char *texts[2] = {name, value};
	if (8 + edge_length(name) + edge_length(value) > sizeof resp->head - resp->head_len) {
		resp->full = true;
		return;
	}
	for (int i = 0; i < 2; i++) {
		uint32_t n = edge_length(texts[i]);
		edge_put(resp->head + resp->head_len, n);
		edge_copy(resp->head + resp->head_len + 4, texts[i], n);
		resp->head_len += 4 + n;
	}
	resp->header_count++;
}

// edge_error answers {"error": code, "reason": reason}, without the reason if it is "".
static inline void edge_error(edge_response *resp, uint16_t status, const char *code, const char *reason) {
	resp->status = status;
	resp->body_len = 0;
	resp->full = false;
	edge_text(resp, "{\"error\":");
	edge_string(resp, (edge_bytes){(const uint8_t *)code, edge_length(code)});
	if (*reason) {
		edge_text(resp, ",\"reason\":");
		edge_string(resp, (edge_bytes){(const uint8_t *)reason, edge_length(reason)});
	}
	edge_text(resp, "}");
}

// What follows is called by the host.

static uint8_t edge_in[EDGE_INPUT_SIZE];
static uint8_t edge_out[64 + sizeof(edge_response)];
static edge_response edge_resp;

static inline int64_t edge_span(const void *at, uint32_t n) {
	return (int64_t)((uint64_t)(uintptr_t)at << 32 | n);
}

static inline bool edge_parse(edge_bytes frame, edge_request *req) {
	const uint8_t *head = frame.at;
	edge_bytes first, name, value; // first: of the parameters, for modules that know of one only
	if (frame.len < 48 || head[0] != EDGE_VERSION) return false;
	*req = (edge_request){.header_count = (uint16_t)(head[2] | head[3] << 8), .random = head + 16};
	req->now = (int64_t)((uint64_t)edge_u32(head + 8) | (uint64_t)edge_u32(head + 12) << 32);
	frame = (edge_bytes){head + 48, frame.len - 48};
	if (!edge_next(&frame, &req->method) || !edge_next(&frame, &req->path) || !edge_next(&frame, &req->query) ||
		!edge_next(&frame, &req->client) || !edge_next(&frame, &req->key_id) || !edge_next(&frame, &req->account_id) ||
		!edge_next(&frame, &req->environment) || !edge_next(&frame, &first)) {
		return false;
	}
	req->headers.at = frame.at;
	for (uint16_t i = 0; i < req->header_count; i++) {
		if (!edge_next(&frame, &name) || !edge_next(&frame, &value)) return false;
	}
	req->headers.len = (uint32_t)(frame.at - req->headers.at);
	return edge_next(&frame, &req->body) && frame.len == 0;
}

__attribute__((export_name("edge_input"))) int64_t edge_input(void) { return edge_span(edge_in, EDGE_INPUT_SIZE); }

__attribute__((export_name("edge_handle"))) int64_t edge_handle(int32_t n) {
	edge_request req;
	edge_response *resp = &edge_resp;
	if (n < 0 || n > EDGE_INPUT_SIZE || !edge_parse((edge_bytes){edge_in, (uint32_t)n}, &req)) return 0;
	resp->status = 200;
	resp->header_count = 0;
	resp->body_len = resp->head_len = 0;
	resp->full = false;
	edge_answer(&req, resp);
	if (resp->full) {
		static const char line[] = "the answer does not fit EDGE_BODY_SIZE or EDGE_HEAD_SIZE";
		edge_log(8, line, sizeof line - 1);
		resp->header_count = 0;
		resp->head_len = 0;
		edge_error(resp, 500, "internal_error", "");
	}
	uint8_t head[32] = {EDGE_VERSION, 0, (uint8_t)resp->header_count, (uint8_t)(resp->header_count >> 8),
		(uint8_t)resp->status, (uint8_t)(resp->status >> 8)}; // the rest only a gate sets
	edge_copy(edge_out, head, sizeof head);
	edge_copy(edge_out + sizeof head, resp->head, resp->head_len);
	edge_put(edge_out + sizeof head + resp->head_len, resp->body_len);
	edge_copy(edge_out + sizeof head + resp->head_len + 4, resp->body, resp->body_len);
	return edge_span(edge_out, (uint32_t)sizeof head + resp->head_len + 4 + resp->body_len);
}

#endif
