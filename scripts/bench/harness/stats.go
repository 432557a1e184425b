package harness

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Median of the values, which must not be empty.
func Median(values []float64) float64 {
	return Quantile(slices.Sorted(slices.Values(values)), .5)
}

// Ratio is the median of a[i]/b[i]: of what was measured in the same round.
func Ratio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return Median(ratios)
}

// Quantile of sorted values; the zero value where there are none.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	if len(sorted) == 0 {
		return *new(T)
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Milliseconds of d, with microseconds behind the point.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ResidentMiB returns the resident memory of a process, "self" or its number, by the
// kernel's books.
func ResidentMiB(process any) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%v/statm", process))
	if err != nil {
		return 0, err
	}
	var size, resident float64
	_, err = fmt.Sscan(string(text), &size, &resident)
	return resident * float64(os.Getpagesize()) / (1 << 20), err
}

// CPUTime returns the processor time that a process has used, "self" or its number,
// in steps of 10 ms.
func CPUTime(process any) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%v/stat", process))
	if err != nil {
		return 0, err
	}
	// See proc(5). The second field is the program's name, which may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/%v/stat: %w", process, err)
		}
		ticks += n
	}
	const ticksPerSecond = 100 // USER_HZ, of every Linux that Go runs on
	return time.Duration(ticks) * (time.Second / ticksPerSecond), nil
}

// Sleep returns after d, or earlier with the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Poll calls done every few milliseconds until it returns true or an error, for
// at most two minutes. what names the event that is waited for.
func Poll(ctx context.Context, what string, done func() (bool, error)) error {
	return PollEvery(ctx, 5*time.Millisecond, what, done)
}

// PollEvery is Poll at a pace of its own, for a question that costs what is measured.
func PollEvery(ctx context.Context, every time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := Sleep(ctx, every); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
	}
}
