package harness

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"partneredge/edge/backoff"
)

// Median of the values, which must not be empty.
func Median[T cmp.Ordered](values []T) T {
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

// MostBeside calls size at a pace until do returns, and returns the largest: what do opens is
// closed at its end, so that a size read then would be without it.
func MostBeside(every time.Duration, do func() error, size func() (float64, error)) (most float64, err error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	tick := time.Tick(every)
	for {
		select {
		case doErr := <-done:
			return most, errors.Join(doErr, err)
		case <-tick:
			now, sizeErr := size()
			most = max(most, now)
			if sizeErr != nil {
				err = sizeErr
			}
		}
	}
}

// CPUTime returns the processor time that the threads of a process have used, "self" or
// its number. Those that have ended do not count.
func CPUTime(process any) (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%v/task/*/schedstat", process))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no processor time of process %v", process)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		used, _, _ := bytes.Cut(text, []byte{' '}) // nanoseconds
		n, err := strconv.ParseInt(string(used), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		sum += time.Duration(n)
	}
	return sum, err
}

// OwnCPUTime returns the processor time that this process has used, to the microsecond.
func OwnCPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
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
		if err := backoff.Pause(ctx, every); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
	}
}
