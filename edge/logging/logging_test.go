package logging

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		warnings := func() (lines []string) {
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, "WARN") {
					_, text, _ := strings.Cut(strings.TrimSpace(line), "msg=")
					lines = append(lines, text)
				}
			}
			return lines
		}
		want := func(all ...string) {
			t.Helper()
			if got := warnings(); fmt.Sprint(got) != fmt.Sprint(all) {
				t.Errorf("warned %q, want %q", got, all)
			}
		}
		l := New(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
		for range 100 {
			l.Warn("a", "no", "n", 1)
		}
		want("no n=1")
		l.Warn("b", "other")
		want("no n=1", "other")
		time.Sleep(Every - 1)
		l.Warn("a", "no", "n", 2)
		want("no n=1", "other")
		time.Sleep(time.Nanosecond)
		l.Warn("a", "no", "n", 3)
		l.Warn("b", "other")
		want("no n=1", "other", `no n=3 held_back=100`, "other")
		for range 2 {
			l.Error("c", "bad")
		}
		if got := strings.Count(out.String(), "level=ERROR msg=bad\n"); got != 1 {
			t.Errorf("%d errors, want 1", got)
		}
		if got := strings.Count(out.String(), "DEBUG"); got != 101 {
			t.Errorf("%d lines are for debugging, want 101", got)
		}
	})
}

func TestCausesAreBounded(t *testing.T) {
	l := New(slog.New(slog.DiscardHandler))
	for i := range 10 * maxCauses {
		l.Warn(fmt.Sprint(i), "no")
		if len(l.causes) > maxCauses {
			t.Fatalf("%d causes are remembered", len(l.causes))
		}
	}
}
