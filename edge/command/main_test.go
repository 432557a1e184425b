package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"partneredge/edge/hint"
	"partneredge/host/compilecache"
)

var update = flag.Bool("update", false, "write what came out to the golden files")

// TestScripts runs each of testdata/script against the program.
func TestScripts(t *testing.T) {
	modules, cache := testFiles.get(t)
	flags := flagsOfGuests(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("MODULES", modules)
			env.Setenv("CACHE", cache)
			// Go's own, for scripts that build a module: each script has a home of its own.
			goCache, err := exec.Command("go", "env", "GOCACHE").Output()
			if err != nil {
				return err
			}
			env.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
			env.Setenv("GOPROXY", "off")
			env.Setenv("GOFLAGS", flags)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":     scriptAwait,
			"comes":     scriptComes,
			"shape":     scriptShape,
			"ask":       scriptAsk,
			"lock-out":  scriptLockOut,
			"same-keys": scriptSameKeys,
			"listen":    scriptListen,
			"code":      scriptCode,
			"field":     scriptField,
			"first":     scriptFirst,
			"firsttry":  scriptFirstTry,
			"encrypt":   scriptEncrypt,
			"spoil":     scriptSpoil,
			"address":   scriptAddress,
			"nats":      scriptNATS,

			"subscribe": scriptSubscribe, "refuse": scriptRefuse,
			"fire-until": scriptFireUntil,
			"receive":    scriptReceive,
			"signed":     scriptSigned,
		},
		RequireExplicitExec: true,
	})
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name string
		err  error
		code int
		text string
	}{
		{"none", nil, 0, ""},
		{"plain", io.ErrUnexpectedEOF, 1, "edge: unexpected EOF\n"},
		{"hint", hint.Add(errors.New("opening x: gone"), "make %s", "x"), 1, "edge: opening x: gone\nhint: make x\n"},
		{"wrapped hint", fmt.Errorf("starting: %w", hint.Add(errors.New("gone"), "wait")), 1, "edge: starting: gone\nhint: wait\n"},
		{"cache of others", nodeHint(fmt.Errorf("start node: %w", &compilecache.ExposedError{Path: "/c", Why: "is open", Fix: "chmod -R go-w '/c'"})), 1,
			"edge: start node: compile cache: /c is open, and what it holds is run as machine code\n" +
				"hint: if nobody else has written to it, run: chmod -R go-w '/c'; otherwise remove it or name another folder with --cache\n"},
		{"usage", usagef("see help", "no %s", "verb"), 2, "edge: no verb\nhint: see help\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stderr strings.Builder
			if code := report(tt.err, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if stderr.String() != tt.text {
				t.Errorf("printed %q, want %q", stderr.String(), tt.text)
			}
		})
	}
}

func TestPrefixes(t *testing.T) {
	tests := []struct {
		in   []string
		want string
		bad  bool
	}{
		{[]string{"10.0.0.0/8"}, "10.0.0.0/8", false},
		{[]string{"10.1.2.3/8"}, "10.0.0.0/8", false},
		{[]string{"127.0.0.1"}, "127.0.0.1/32", false},
		{[]string{"::1,10.0.0.0/8"}, "::1/128,10.0.0.0/8", false},
		{[]string{"::1", "127.0.0.1"}, "::1/128,127.0.0.1/32", false},
		{[]string{"::ffff:10.1.2.3"}, "10.1.2.3/32", false},
		{[]string{"::ffff:10.1.2.3/104"}, "10.0.0.0/8", false},
		{[]string{"::ffff:10.1.2.3/8"}, "", true}, // more than IPv4
		{[]string{""}, "", true},
		{[]string{"fe80::1%eth0"}, "", true},
		{[]string{"localhost"}, "", true},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.in, " "), func(t *testing.T) {
			var p prefixes
			var err error
			for _, text := range tt.in {
				err = errors.Join(err, p.Set(text))
			}
			if (err != nil) != tt.bad {
				t.Fatalf("error %v", err)
			}
			if err == nil && p.String() != tt.want {
				t.Errorf("%s, want %s", p.String(), tt.want)
			}
		})
	}
}
