package host

import (
	"testing"

	"partneredge/host/memory"
)

// TestLogsAreBounded: a module that logs line after line while it starts, empty ones as
// well, fills no log. Each line counts beside its text.
func TestLogsAreBounded(t *testing.T) {
	for name, length := range map[string]num{"empty": 0, "long": 200} {
		t.Run(name, func(t *testing.T) {
			const lines = 5000
			start := asm(0x03, 0x40, // loop
				num(8), num(0x100), length, 0x10, 1, // log
				num(0x8000), num(0x8000), 0x28, 2, 0, num(1), 0x6a, 0x36, 2, 0, // ++[0x8000]
				num(0x8000), 0x28, 2, 0, num(lines), 0x49, 0x0d, 0, // again if [0x8000] < lines
				0x0b)
			_, m, log := openHostile(t, assembled(answerWith(asm(num(0x8000), 0x28, 2, 0)), start), memory.Auto, Limits{Sandboxes: 2})
			most := 16 << 10 / (int(length) + 32)
			if n := log.Count("module log"); n == 0 || n > most {
				t.Errorf("%d lines were logged, want 1 to %d of %d", n, most, lines)
			}
			if _, err := ask(m, "/", ""); err != nil {
				t.Error(err)
			}
		})
	}
}
