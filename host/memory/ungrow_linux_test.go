package memory

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUngrowWhereTheSystemRefuses has the system refuse to make so many bytes usable as only
// this test asks for, in a process of its own: what was granted is undone.
func TestUngrowWhereTheSystemRefuses(t *testing.T) {
	const env, odd = "MEMORY_TEST_UNGROW", 1237 * pageSize
	if os.Getenv(env) == "" {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestUngrowWhereTheSystemRefuses$", "-test.count=1", "-test.v")
		process.Env = append(os.Environ(), env+"=1")
		out, err := process.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		} else if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("NOT TESTED: %s", out)
		}
		return
	}
	refuse(t, unix.SYS_MPROTECT, odd)
	m, err := New(2*odd, Copy)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	taken := 0
	m.Grow = func(from, to int) bool {
		taken += to - from
		return true
	}
	m.Ungrow = func(from, to int) { taken -= to - from }
	if m.Resize(pageSize) == nil {
		t.Fatal("growth refused")
	}
	if m.Resize(pageSize+odd) != nil || m.Len() != pageSize {
		t.Fatal("the system gave what it was to refuse")
	}
	if taken != pageSize {
		t.Errorf("%d bytes are taken, %d usable", taken, m.Len())
	}
}
