package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"partneredge/edge/addresstest"
	"partneredge/edge/webhook/signature"
	"partneredge/store/logtest"
	"partneredge/wasm/contract"
	"partneredge/wasm/fake"
	"partneredge/wasm/sandboxctl"
)

// buildSandbox builds the sandbox program beside this one, where `edge sandbox`
// looks for it.
func buildSandbox(t *testing.T) (program string) {
	t.Helper()
	program = testFiles.program(t)
	if err := run("../../scripts/build-module", "wasm/modules/sandbox", filepath.Dir(program)); err != nil {
		t.Fatal(err)
	}
	return program
}

// startSandbox runs `edge sandbox`. stop ends it with SIGTERM and tells what it
// wrote to standard error.
func startSandbox(t *testing.T, program string, args ...string) (in io.Writer, out *bufio.Reader, stop func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	args = append([]string{"sandbox", "--cache", "../../build/testcache/sandbox"}, args...)
	cmd := exec.CommandContext(ctx, program, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() string {
		t.Helper()
		if ended {
			return stderr.String()
		}
		ended = true
		defer cancel()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("edge sandbox: %v\n%s", err, &stderr)
		}
		return stderr.String()
	}
	t.Cleanup(func() { stop() })
	return stdin, bufio.NewReader(stdout), stop
}

func TestSandbox(t *testing.T) {
	t.Parallel()
	program := buildSandbox(t)
	t.Run("contract", func(t *testing.T) { sandboxContract(t, program) })
	t.Run("greeting", func(t *testing.T) { sandboxGreeting(t, program) })
	t.Run("failures", func(t *testing.T) { sandboxFailures(t, program) })
	t.Run("readme", func(t *testing.T) { sandboxReadme(t, program) })
	t.Run("guide", func(t *testing.T) { sandboxGuide(t, program) })
	t.Run("control", func(t *testing.T) { sandboxControl(t, program) })
}

// sandboxGuide runs what the guide tells a partner to do with a sandbox, but for where
// the program lies and its ports, and receives its webhooks.
func sandboxGuide(t *testing.T, program string) {
	needShell(t, "the guide's sandbox")
	text, err := os.ReadFile("../node/openapi/guide/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	section, _, _ := strings.Cut(string(text), "## Webhooks on a laptop")
	script := ""
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		script += block[1]
	}
	if strings.Contains(script, ":8080") {
		t.Errorf("the guide's sandbox listens where `edge dev` does:\n%s", script)
	}
	got := make(chan delivery, 10)
	refused := false // the first try, so that there is a second
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if !refused {
			refused = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got <- delivery{time.Now(), r.URL.Path, r.Header, body}
	}))
	defer receiver.Close()
	script = strings.NewReplacer("edge sandbox", program+" sandbox --cache ../../build/testcache/sandbox",
		"127.0.0.1:8085", addresstest.Fixed(t), "127.0.0.1:8081", addresstest.Fixed(t), "http://localhost:3000", receiver.URL,
		"/hook &", "/hook --retries 100ms,100ms &", "curl ", "curl -sS --fail ",
		"node receiver.mjs &\nsleep 1", `echo "the receiver has $SECRET"`).Replace(script)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", "trap 'kill $! 2>/dev/null || true' EXIT\n"+script+"read wait\n")
	cmd.Env = append(os.Environ(), "no_proxy=*")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	release, err := cmd.StdinPipe() // the sandbox stays until the webhooks are here
	if err != nil {
		t.Fatal(err)
	}
	var out logtest.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for range 2 {
		d := receive(t, got)
		// What the script prints comes by another way than the webhook.
		await(t, "the receiver's secret", func() bool { return strings.Contains(out.String(), "the receiver has ") })
		secret := regexp.MustCompile(`"secret":"([0-9a-f]{64})"`).FindStringSubmatch(out.String())
		if secret == nil || !strings.Contains(out.String(), "the receiver has "+secret[1]+"\n") {
			t.Fatalf("no secret, or not the receiver's, in\n%s", out.String())
		}
		if err := signature.Verify(d.header.Get(signature.Header), d.body, signature.DefaultTolerance, d.at, secret[1]); err != nil {
			t.Error(err)
		}
		types[d.header.Get("X-Svc-Event")] = true
	}
	if !types["client.contacted"] || !types["deal.stage_changed"] {
		t.Errorf("received %v", types)
	}
	// It says what became of a try after the receiver has answered.
	await(t, "both events to be acknowledged", func() bool { return strings.Count(out.String(), ": 200 in ") == 2 })
	_, _ = io.WriteString(release, "done\n")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{`"from_stage":"offer","to_stage":"closed"`, `{"key":"svc_live_`, "try 1: 503 in ", "try 2: 200 in "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
}

// sandboxControl asks the HTTP face for what it refuses, and ends the sandbox.
func sandboxControl(t *testing.T, program string) {
	_, out, stop := startSandbox(t, program, "--control", "127.0.0.1:0")
	var hello struct {
		URL string `json:"url"`
	}
	base := ""
	for base == "" {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %s", err, stop())
		}
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "control" {
			base = strings.TrimSpace(value)
		}
	}
	call := func(method, path, body string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		if host := req.Header.Get("Host"); host != "" {
			req.Host = host
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	if status, text := call("GET", "/", ""); status != 200 || json.Unmarshal([]byte(text), &hello) != nil || !answers(hello.URL+"/docs") {
		t.Fatalf("hello: %d %s", status, text)
	}
	for _, tt := range []struct {
		method, path, body string
		header             []string
		status             int
		want               string
	}{
		{"POST", "/", `{"do":"contact","client":"c","channel":"sms"}`, nil, 200, `"deliveries":[]`},
		{"POST", "/", `{"do":"fly"}`, nil, 400, "is no command: there are account, key"},
		{"POST", "/", `{"do":"contact","clint":"c"}`, nil, 400, `unknown field \"clint\"`},
		{"POST", "/", `{"do":"leads"} {}`, nil, 400, "more follows"},
		{"POST", "/", `{"do":"leads"}}`, nil, 400, "more follows"},
		{"POST", "/", `{"do":"account","name":"` + strings.Repeat("<", 500<<10) + `"}`, nil, 200, `{"id":"acc_`},
		{"POST", "/", `{"do":"insights","insights":[{}` + strings.Repeat(",{}", 100_000) + `]}`, nil, 400, "bytes of JSON"},
		{"GET", "/", "", nil, 200, "live_key"},
		{"POST", "/", `do`, nil, 400, `not a command such as {\"do\":`},
		{"POST", "/", "", nil, 400, "not a command"},
		{"POST", "/", `{"do":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 400, "too large"},
		{"PUT", "/", "", nil, 405, "POST a command to /"},
		{"POST", "/x", "", nil, 404, "POST a command to /"},
		{"GET", "/", "", []string{"Host", "attacker.example"}, 421, "localhost"},
		{"POST", "/", `{"do":"leads"}`, []string{"Origin", "https://attacker.example"}, 403, "cross-origin"},
		{"POST", "/", `{"do":"leads"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-origin"},
	} {
		if status, text := call(tt.method, tt.path, tt.body, tt.header...); status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s %s %.60s %v: %d %s, want %d with %s", tt.method, tt.path, tt.body, tt.header, status, text, tt.status, tt.want)
		}
	}
	if text := stop(); text != "" {
		t.Errorf("standard error: %s", text)
	}
	if answers(base) || answers(hello.URL) {
		t.Error("it still answers after it was stopped")
	}
}

// sandboxReadme runs what the README tells a partner's CI to do, but for where
// the program lies and its port.
func sandboxReadme(t *testing.T, program string) {
	needShell(t, "the README's test against the sandbox")
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## Test against it offline\n")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	script, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("no commands")
	}
	// The port is whichever the program takes, so the address is what it prints.
	greeting := filepath.Join(t.TempDir(), "greeting")
	const fixed = "127.0.0.1:8085" // beside `make run`, which has 8080
	if strings.Count(script, "--listen "+fixed+" &\n") != 1 || strings.Count(script, "API=http://"+fixed) != 1 || strings.Count(script, fixed) != 2 {
		t.Fatalf("the address is not where this test looks for it:\n%s", script)
	}
	if set := regexp.MustCompile(`(?m)^(?:export )?(?:NODE|ADMIN|ACCOUNT|LIVE|TEST|TOKEN)=`).FindString(script); set != "" {
		t.Errorf("it sets %s anew, which the tour goes on to use", set)
	}
	script = strings.NewReplacer("build/edge sandbox", program+" sandbox --cache ../../build/testcache/sandbox",
		fixed+" &", "127.0.0.1:0 >"+greeting+" &",
		"http://"+fixed, "$(until grep -o 'http://127[.:0-9]*' "+greeting+" | head -n 1 | grep .; do kill -0 $!; sleep 0.1; done)",
		"curl ", "curl -sS --fail ").Replace(script)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// However it goes, nothing stays behind in the background.
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", "trap 'kill $! 2>/dev/null || true' EXIT\n"+script+"wait $!\n")
	cmd.Env = append(os.Environ(), "no_proxy=*")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`"account":{"id":"acc_`, `"email":"sam@example.com"`, `"sandbox":true`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// sandboxContract runs every case of the partner interface against what `edge
// sandbox` runs, over HTTP, and stops it with a signal.
func sandboxContract(t *testing.T, program string) {
	in, out, stop := startSandbox(t, program, "--control")
	first, err := out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, stop())
	}
	var hello struct {
		URL  string `json:"url"`
		Live string `json:"live_key"`
		Test string `json:"test_key"`
	}
	if err := json.Unmarshal(first, &hello); err != nil {
		t.Fatalf("%v: %s", err, first)
	}
	t.Run("keys", func(t *testing.T) {
		// Partners write them down: they stay what they are.
		if got, want := hello.Live, "svc_live_OsFkOnHZwvEwMYxHbVld8sHG94YyjO40RHl6"; got != want {
			t.Errorf("live key %s, want %s", got, want)
		}
		for _, key := range []string{hello.Live, hello.Test} {
			if status, _ := request(t, "GET", hello.URL+"/api/v2/public/agents/me", key, ""); status != http.StatusOK {
				t.Errorf("agents/me with %s: %d", key, status)
			}
		}
	})
	client := sandboxctl.NewClient(in, out)
	if _, err := client.Do(sandboxctl.Command{Do: "clock", At: time.UnixMicro(fake.NewClock().Now())}); err != nil {
		t.Fatal(err)
	}
	linux := runtime.GOOS == "linux" // all of 127.0.0.0/8 is the machine itself
	target := contract.Commanded(t, client)
	target.Send, target.Clients = contract.Server(hello.URL, nil), linux
	skipped := contract.Run(t, target)
	if linux && len(skipped) != 0 {
		t.Errorf("left out: %q", skipped)
	}
	if text := stop(); text != "" {
		t.Errorf("standard error: %s", text)
	}
	if answers(hello.URL) {
		t.Error("it still answers after it was stopped")
	}
}

// answers reports whether something answers at base.
func answers(base string) bool {
	resp, err := http.Get(base)
	if err == nil {
		resp.Body.Close()
	}
	return err == nil
}

// sandboxGreeting is the output of a sandbox that is given no commands.
func sandboxGreeting(t *testing.T, program string) {
	_, out, stop := startSandbox(t, program, "--listen", "localhost:0")
	var text strings.Builder
	for !strings.Contains(text.String(), "curl -i") {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("%v: %s%s", err, &text, stop())
		}
		text.WriteString(line)
	}
	for _, want := range []string{"http://127.0.0.1:", "svc_live_", "svc_test_"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in\n%s", want, &text)
		}
	}
}

// sandboxFailures says what is wrong.
func sandboxFailures(t *testing.T, program string) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--program", "/nowhere/sandbox.wasm"}, "hint: "},
		{[]string{"--listen", "nowhere"}, "hint: --listen takes an address"},
		{[]string{"--listen", "127.0.0.1:70000"}, "hint: --listen takes an address"},
		{[]string{"--listen", taken.Addr().String()}, "hint: choose another --listen address"},
		{[]string{"--listen", "192.0.2.1:0", "--control", "127.0.0.1:0"}, "hint: choose another --listen address"},
		{[]string{"--cache", "/dev/null/cache"}, "hint: name a folder that can be written to with --cache"},
		{[]string{"--control", "nowhere"}, "hint: --control takes an address"},
		{[]string{"--control=192.0.2.1:0"}, "hint: choose another --control address"},
	} {
		cmd := exec.Command(program, append([]string{"sandbox", "--cache", "../../build/testcache/sandbox"}, tt.args...)...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(string(out), tt.want) {
			t.Errorf("%v: %v, want %q in\n%s", tt.args, err, tt.want, out)
		}
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"extra"}, `unexpected argument "extra"`},
		{[]string{"--control", "127.0.0.1:0", "extra"}, `unexpected argument "extra"`},
		{[]string{"--forward", "localhost"}, "no address such as"},
		{[]string{"--forward", "http://localhost/", "--control"}, "not commands on standard input"},
		{[]string{"--retries", "1s"}, "--retries goes with --forward"},
		{[]string{"--retries", "1s,-1s", "--forward", "http://localhost/"}, "--retries must be above 0"},
	} {
		out, err := exec.Command(program, append([]string{"sandbox"}, tt.args...)...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || !strings.Contains(string(out), tt.want) {
			t.Errorf("%v: %v, want %q in\n%s", tt.args, err, tt.want, out)
		}
	}
}
