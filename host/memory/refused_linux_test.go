package memory

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusedEnv names, in a process of its own, which call the system refuses.
const refusedEnv = "MEMORY_TEST_REFUSED"

// TestSystemThatRefuses has the system refuse a call, as old kernels and containers do.
// The best of what is left is used, it is said what was refused, and no file stays open.
func TestSystemThatRefuses(t *testing.T) {
	refusals := map[string]struct {
		call, request uint32 // request: the second argument; 0: any
		without       []Strategy
	}{
		"userfaultfd":                   {unix.SYS_USERFAULTFD, 0, []Strategy{Track}},
		"asynchronous write protection": {unix.SYS_IOCTL, uffdioAPI, []Strategy{Track}},
		"scan pages":                    {unix.SYS_IOCTL, pagemapScan, []Strategy{Track, Scan}},
		"make image":                    {unix.SYS_MEMFD_CREATE, 0, []Strategy{Track, Scan, Pagemap, DontNeed, Copy}},
		"write":                         {unix.SYS_PWRITE64, 0, []Strategy{Track, Scan, Pagemap, DontNeed, Copy}},
	}
	name := os.Getenv(refusedEnv)
	if name == "" {
		for name := range refusals {
			t.Run(name, func(t *testing.T) {
				process := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSystemThatRefuses$", "-test.count=1", "-test.v")
				process.Env = append(os.Environ(), refusedEnv+"="+name)
				out, err := process.CombinedOutput()
				if err != nil {
					t.Errorf("%v\n%s", err, out)
				} else if strings.Contains(string(out), "--- SKIP") {
					t.Skipf("NOT TESTED: %s", out)
				}
			})
		}
		return
	}
	refusal := refusals[name]
	all := Available()
	want := slices.DeleteFunc(slices.Clone(all), func(s Strategy) bool { return slices.Contains(refusal.without, s) })
	before := openFiles(t)
	refuse(t, refusal.call, refusal.request)
	if got := Available(); !slices.Equal(got, want) {
		t.Errorf("available are %v, want %v", got, want)
	}
	if s, err := Choose(Auto); len(want) > 0 && (err != nil || s != want[0]) || len(want) == 0 && !errors.Is(err, unix.EPERM) {
		t.Errorf("chosen is %v, %v, want the first of %v", s, err, want)
	}
	for _, s := range all {
		_, err := Choose(s)
		if refused := slices.Contains(refusal.without, s); refused && (!errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), name)) || !refused && err != nil {
			t.Errorf("%s: %v, refused: %t", s, err, refused)
		}
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, before %d", after, before)
	}
}

// refuse has the system refuse a call to this process, from here on, with EPERM.
func refuse(t *testing.T, call, request uint32) {
	t.Helper()
	// By struct seccomp_data: the number of the call is at 0, and its second argument at
	// 24. Each comparison skips to the last line when it does not hold.
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 24},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: request, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if request == 0 {
		program[1].Jf = 1
		program = slices.Delete(program, 2, 4)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	// The flag has it hold for all threads.
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter))); errno != 0 {
		t.Skipf("NOT TESTED: %v", errno)
	}
}
