package authoring

import (
	"os"
	"path/filepath"
	"testing"

	"partneredge/store/logtest"
	"partneredge/wasm"
)

// inC returns a new module in C with sources and cases of its own.
func inC(t *testing.T, source, cases string) *Project {
	t.Helper()
	p := started(t, wasm.C)
	needCompiler(t, p)
	for name, text := range map[string]string{"main.c": source, casesFile: cases} {
		if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// passes fails the test unless a module compiles without a warning and passes its cases.
func passes(t *testing.T, p *Project) {
	t.Helper()
	report, err := p.Test(t.Context(), config(t))
	if err != nil || !report.OK || report.Warnings != "" {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestStackOfC: a deep frame either fits the stack or traps. It never overwrites data.
func TestStackOfC(t *testing.T) {
	passes(t, inC(t, `#include "edge.h"

static volatile uint8_t table[256 << 10];

#define FRAME(name, size) \
	__attribute__((noinline)) static void name(void) { \
		volatile uint8_t out[size]; \
		for (uint32_t i = 0; i < sizeof out; i++) out[i] = 170; \
	}

FRAME(fits, 200 << 10)
FRAME(overflows, 300 << 10)

void edge_answer(const edge_request *req, edge_response *resp) {
	for (uint32_t i = 0; i < sizeof table; i++) table[i] = 42;
	if (edge_is(edge_param(req, "{who}"), "fits")) fits();
	if (edge_is(edge_param(req, "{who}"), "overflows")) overflows();
	int64_t sum = 0;
	for (uint32_t i = 0; i < sizeof table; i++) sum += table[i];
	edge_number(resp, sum / sizeof table);
}
`, `{"cases": [{"name": "frames", "steps": [
		{"path": "hello/fits", "status": 200, "want": 42},
		{"path": "hello/overflows", "status": 500}]}]}`))
}

// TestCWithoutLibrary: the compiler calls no function of C's library, which is not there. It
// would make puts of this module's printf, and strlen of the loop of edge_length.
func TestCWithoutLibrary(t *testing.T) {
	passes(t, inC(t, `#include "edge.h"

static const char *volatile text = "{\"length\":";

__attribute__((noinline)) int printf(const char *format, ...) {
	edge_log(0, format, (int32_t)edge_length(format));
	return 0;
}

void edge_answer(const edge_request *req, edge_response *resp) {
	const char *s = text;
	printf("here\n");
	edge_text(resp, s);
	edge_number(resp, edge_length(s));
	edge_text(resp, "}");
}
`, `{"cases": [{"name": "text", "steps": [{"path": "hello/ana", "status": 200, "want": {"length": 10}}]}]}`))
}

// TestRoomOfC: an answer that does not fit is a 500 that the log explains, unless the module
// answers with an error of its own, and a module may define how much fits.
func TestRoomOfC(t *testing.T) {
	const source = `#include "edge.h"

void edge_answer(const edge_request *req, edge_response *resp) {
	static char value[5001];
	edge_bytes who = edge_param(req, "{who}");
	edge_text(resp, "\"");
	if (!edge_is(who, "head")) for (int i = 0; i < 100 << 10; i++) edge_text(resp, "x");
	edge_text(resp, "\"");
	for (uint32_t i = 0; i < sizeof value - 1; i++) value[i] = 'x';
	if (!edge_is(who, "body")) edge_add_header(resp, "x-own", value);
	if (edge_is(who, "own")) edge_error(resp, 422, "too_many", "");
}
`
	const line = "the answer does not fit EDGE_BODY_SIZE or EDGE_HEAD_SIZE"
	const internal, own = `"status": 500, "want": {"error": "internal_error"}`, `"status": 422, "want": {"error": "too_many"}`
	for _, tt := range []struct {
		who, defined, want string
		logged             int
	}{
		{"body", "", internal, 1},
		{"head", "", internal, 1},
		{"own", "", own, 0},
		{"body", "#define EDGE_BODY_SIZE 1 << 20\n", `"status": 200`, 0},
		{"head", "#define EDGE_HEAD_SIZE 1 << 13\n", `"status": 200`, 0},
	} {
		p := inC(t, tt.defined+source, `{"cases": [{"name": "room", "steps": [{"path": "hello/`+tt.who+`", `+tt.want+`}]}]}`)
		replace(t, p, manifestFile, `"params": {"who": "ana"}`, `"params": {"who": "own"}`) // which logs nothing
		c := config(t)
		var log *logtest.Buffer
		c.Log, log = logtest.New()
		report, err := opened(t, p.Dir).Test(t.Context(), c)
		if n := log.Count(line); err != nil || !report.OK || report.Warnings != "" || n != tt.logged {
			t.Errorf("%s, %q: %+v, %v; %d lines in the log", tt.who, tt.defined, report, err, n)
		}
	}
}
