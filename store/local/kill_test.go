package local

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"partneredge/store/local/outbox"
	"partneredge/store/logtest"
	"strings"
	"sync"
	"testing"
	"time"
)

// childDir names the variable that makes this test binary the process to kill.
const childDir = "LOCAL_STORE_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child accepts leads and spends tokens until it is killed, and says on
// standard output what it answered: "lead ID" or "took N".
func child(dir string) error {
	s, err := Open(Config{Dir: dir})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...) // one write each
	}
	ctx := context.Background()
	for w := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("lead_%d_%d_%d", os.Getpid(), w, i)
				if err := s.Outbox.Append(ctx, outbox.Item{ID: id, Body: bodyOf(id)}); err != nil {
					panic(err)
				}
				say("lead %s", id)
			}
		}()
	}
	for taken := 1; ; taken++ {
		b, _, err := s.Buckets.Take(childKey(os.Getpid()), childLimit)
		if err != nil {
			return err
		}
		if !b.Allowed {
			select {} // until it is killed
		}
		say("took %d", taken)
	}
}

const childLimit = 600 // a minute

func childKey(pid int) string { return fmt.Sprintf("key_%d", pid) }

// What was answered before the process was killed is there after it.
func TestKilledAtAnyPoint(t *testing.T) {
	dir := t.TempDir()
	answered := map[string]bool{}
	for round := range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		taken, killed := 0, false
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			if id, ok := strings.CutPrefix(lines.Text(), "lead "); ok {
				answered[id] = true
			} else if _, err := fmt.Sscanf(lines.Text(), "took %d", &taken); err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
			if !killed && n >= 200+137*round && taken > 0 && len(answered) > 0 {
				killed = true
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed

		log, text := logtest.New()
		s, err := Open(Config{Dir: dir, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		waits := map[string]bool{}
		items, err := s.Outbox.Pending(1<<20, 1<<30, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if !bytes.Equal(it.Body, bodyOf(it.ID)) {
				t.Fatalf("%s has body %q", it.ID, it.Body)
			}
			waits[it.ID] = true
		}
		for id := range answered {
			if !waits[id] {
				t.Errorf("round %d: %s was answered and is gone", round, id)
			}
		}
		b, _, err := s.Buckets.Take(childKey(cmd.Process.Pid), childLimit)
		if err != nil {
			t.Fatal(err)
		}
		back := int(time.Since(started).Seconds()*childLimit/60) + 1 // it refills, until it was read
		if missing := childLimit - b.Remaining; taken == 0 || missing < taken-back {
			t.Errorf("round %d: %d tokens taken, %d missing, at most %d regained", round, taken, missing, back)
		}
		if text.Lines() > 0 {
			t.Errorf("round %d: %s", round, text)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(answered) == 0 {
		t.Fatal("no lead was accepted in any round")
	}
}

// bodyOf returns the body of the lead with an id.
func bodyOf(id string) []byte { return []byte(`{"id":"` + id + `"}`) }
