//go:build unix

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestOutputToNoFile has each command that replaces a file refuse a pipe, also behind a link,
// before it does anything, and replace a file behind a link.
func TestOutputToNoFile(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method == http.MethodPost {
			fmt.Fprint(w, `{"node":{"id":"node_1"},"credentials":"the credentials"}`)
		} else {
			fmt.Fprintln(w, `{"kind":"end","record":{"counts":{}}}`)
		}
	}))
	defer origin.Close()
	dir := t.TempDir()
	token := written(t, filepath.Join(dir, "token"), []byte("secret"))
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	toFile, toPipe := filepath.Join(dir, "to-file"), filepath.Join(dir, "to-pipe")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(file, toFile), os.Symlink(pipe, toPipe)); err != nil {
		t.Fatal(err)
	}
	data := backupSource(t)
	admin := []string{"--admin", origin.URL, "--token-file", token, "--out"}
	for _, args := range [][]string{
		{"backup", "--data", data, "--to"},
		append(strings.Fields("account export acc_1"), admin...),
		append(strings.Fields("node enrol --name n --region eu"), admin...),
	} {
		run := func(to string) (code int, said string) {
			var stdout, stderr bytes.Buffer
			code = Main(t.Context(), "test", append(args, to), &stdout, &stderr)
			return code, stderr.String()
		}
		before := asked.Load()
		for _, to := range []string{pipe, toPipe} {
			if code, said := run(to); code != exitFailed || !strings.Contains(said, to+" is no file\nhint: ") {
				t.Errorf("%v %s: exit code %d, %q", args, to, code, said)
			}
		}
		if info, err := os.Stat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
			t.Fatalf("%v: the pipe is now %v, %v", args, info.Mode(), err)
		}
		if info, err := os.Lstat(toPipe); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Fatalf("%v: the link to the pipe is now %v, %v", args, info.Mode(), err)
		}
		if n := asked.Load() - before; n > 0 {
			t.Errorf("%v: the origin was asked %d times", args, n)
		}
		written(t, file, []byte("before"))
		if code, said := run(toFile); code != exitOK {
			t.Errorf("%v: exit code %d, %q", args, code, said)
		}
		if to, err := os.Readlink(toFile); err != nil || to != file {
			t.Fatalf("%v: the link leads to %q, %v", args, to, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) == "before" {
			t.Errorf("%v: the file behind the link is still %q, %v", args, text, err)
		}
	}
}

// TestSecretToNobody: a secret that is piped to a process that has ended is known to be lost.
func TestSecretToNobody(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	var said bytes.Buffer
	cmd := exec.Command(testFiles.program(t), append([]string{"key", "create", "acc_1"}, makesSecrets(t)...)...)
	cmd.Stdout, cmd.Stderr = w, &said
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(said.String(), "key key_1 is made, but what is shown once is lost: ") {
		t.Errorf("%v: %q", err, &said)
	}
}
