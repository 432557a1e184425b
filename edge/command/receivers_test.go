package command

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"partneredge/edge/addresstest"
	"partneredge/edge/adminapi"
	"partneredge/edge/node/openapi"
	"partneredge/store/logtest"
)

// receivers are the guide's whole receivers: by language the file and what starts it.
var receivers = map[string]struct {
	file  string
	start []string
}{
	"go":     {"receiver.go", []string{"go", "run", "receiver.go"}},
	"js":     {"receiver.mjs", []string{"node", "receiver.mjs"}},
	"python": {"receiver.py", []string{"python3", "receiver.py"}},
}

// printed keeps the output of a program. Its streams are kept apart: what threads write to
// them at a time would be mixed otherwise.
type printed struct{ out, errs logtest.Buffer }

func (p *printed) String() string { return p.out.String() + p.errs.String() }

// startReceiver runs a receiver with a secret, and returns its address and what it prints.
func startReceiver(t *testing.T, language, program, secret string) (address string, says *printed) {
	t.Helper()
	r := receivers[language]
	needTool(t, r.start[0])
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, r.file), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	address, says = addresstest.Fixed(t), new(printed)
	_, port, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, r.start[0], r.start[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), "SECRET="+secret, "PORT="+port), &says.out, &says.errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run starts another
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	await(t, "the receiver to listen", func() bool {
		select {
		case <-ended:
			t.Fatalf("the receiver ended:\n%s", says)
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	return address, says
}

// dialReceiver connects to a receiver.
func dialReceiver(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// deliver posts a body to a receiver, with a header of the signature unless that is nil,
// byte for byte: clients would refuse some. The headers that are not signed are false. It
// returns the status.
func deliver(t *testing.T, address string, header *string, body string) int {
	t.Helper()
	conn := dialReceiver(t, address)
	defer conn.Close()
	var b strings.Builder
	fmt.Fprintf(&b, "POST /hook HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nConnection: close\r\nX-Svc-Event: false\r\nX-Svc-Event-Id: evt_false\r\n", address, len(body))
	if header != nil {
		fmt.Fprintf(&b, "X-Svc-Signature: %s\r\n", *header)
	}
	b.WriteString("\r\n" + body)
	if _, err := conn.Write([]byte(b.String())); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// breakOff drops a connection to a receiver within the body, as a stranger may. It waits
// until the receiver has taken the headers, if that says so, and resets the connection.
func breakOff(t *testing.T, address string, saysContinue bool) {
	t.Helper()
	conn := dialReceiver(t, address)
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /hook HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n", address); err != nil {
		t.Fatal(err)
	}
	if saysContinue {
		if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Fatalf("%q, %v; want to be told to go on", line, err)
		}
	}
	if _, err := conn.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
}

// refusesLength holds that a receiver refuses a Content-Length that is none, and waits
// for no body of it.
func refusesLength(t *testing.T, address, length string) {
	t.Helper()
	conn := dialReceiver(t, address)
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /hook HTTP/1.1\r\nHost: %s\r\nContent-Length: %s\r\n\r\n", address, length); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("Content-Length of %d characters: %v", len(length), err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusBadRequest { // some servers refuse by themselves
		t.Errorf("Content-Length of %d characters: %d", len(length), resp.StatusCode)
	}
}

// TestDocsReceivers posts the vectors to each of the guide's receivers, which runs by the
// vectors' clock and otherwise as it stands, after what strangers may send. It holds that
// each takes type and id from the signed body, and that none starts without a secret.
func TestDocsReceivers(t *testing.T) {
	secret, all := readVectors(t)
	for language, r := range receivers {
		t.Run(language, func(t *testing.T) {
			program := verifyingExample(t, language)
			address, says := startReceiver(t, language, program, secret)
			breakOff(t, address, language != "python") // Python's server speaks HTTP/1.0
			for _, length := range []string{"-1", "ten", strings.Repeat("9", 5000)} {
				refusesLength(t, address, length)
			}
			events := 0
			for _, v := range all {
				want := http.StatusUnauthorized
				if v.Valid && v.Body == "" {
					want = http.StatusBadRequest
				} else if v.Valid {
					want = http.StatusNoContent
					events++
				}
				if got := deliver(t, address, v.Header, v.Body); got != want {
					t.Errorf("%s: %d, want %d\n%s", v.Name, got, want, says)
				}
			}
			await(t, "the receiver to have printed all events", func() bool { return strings.Count(says.String(), `"changed_at"`) == events })
			if said := says.String(); strings.Count(said, "deal.stage_changed evt_01kanqf8t0fk3v5x7z9b1d3f5h {") != events || strings.Contains(said, "evt_false") {
				t.Errorf("the receiver prints\n%s", said)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, r.file), []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(r.start[0], r.start[1:]...)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "SECRET=")
			if text, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(text, []byte("set SECRET")) {
				t.Errorf("without a secret: %v\n%s", err, text)
			}
		})
	}
}

// commandsOf returns the blocks of a language on a page of the guide, as a reader copies
// them from what a node serves.
func commandsOf(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	w := httptest.NewRecorder()
	openapi.Handler().ServeHTTP(w, httptest.NewRequest("GET", openapi.DocsPath+"/"+page, nil))
	for _, m := range regexp.MustCompile(`(?s)<code class="language-`+language+`">(.*?)</code>`).FindAllStringSubmatch(w.Body.String(), -1) {
		blocks = append(blocks, html.UnescapeString(m[1]))
	}
	return blocks
}

// TestDocsFirstDay types what the guide tells a new partner, block by block, into a shell
// beside `edge dev`: from the first request to a webhook that is verified and a lead that
// is kept.
func TestDocsFirstDay(t *testing.T) {
	needShell(t, "the guide's quick start")
	needTool(t, "openssl")
	work := t.TempDir()
	d := startDevForTest(t, filepath.Join(work, "data"))
	const secret = "only-for-a-trial"
	text, err := os.ReadFile("../node/openapi/guide/verifying.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```js\n(.*?)```").FindSubmatch(text)
	if example == nil {
		t.Fatal("no receiver")
	}
	receiver, says := startReceiver(t, "js", string(example[1]), secret)
	sh := startShell(t, work)
	hold := func(page string, wants ...[]string) {
		t.Helper()
		blocks := commandsOf(t, page, "sh")
		if len(blocks) != len(wants) {
			t.Fatalf("%s has %d blocks, want %d", page, len(blocks), len(wants))
		}
		for i, block := range blocks {
			if strings.Contains(block, "receiver.mjs") { // it runs already
				continue
			}
			said := sh.run(t, strings.ReplaceAll(block, "127.0.0.1:3000", receiver))
			for _, want := range wants[i] {
				if !strings.Contains(said, want) {
					t.Errorf("%s: no %s in the answer to\n%s\n%s", page, want, block, said)
				}
			}
		}
	}
	hold("quickstart", nil, nil, []string{"HTTP/1.1 200 OK", `"name":"Reyes Realty"`}, []string{`"source":"fallback"`, `"firings":[]`},
		[]string{`"sandbox":true`}, nil, []string{"HTTP/1.1 204 "}, []string{"HTTP/1.1 401 "}, []string{`"secret":"`}, []string{`"sandbox":false`})
	// It prints an event after it has answered, at once or not.
	await(t, "the receiver to print the event", func() bool { return strings.Contains(says.String(), "sentinel.fired evt_1 {") })
	if said := says.String(); strings.Count(said, "evt_1 ") != 1 {
		t.Errorf("the receiver printed %s", said)
	}
	hold("leads", []string{`"sandbox":false`, `"consent_status":"express_written"`}, []string{`"lead":{"id":"lead_`, `"sandbox":true`})
	sh.run(t, "HOOK=https://1.1.1.1/hook") // in place of the reader's own
	hold("webhooks", []string{`"environment":"live"`})
	for name, page := range map[string]string{"partner.py": "clients", "pages.py": "pagination"} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(commandsOf(t, page, "python")[0]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said := sh.run(t, "python3 pages.py"); said != "0\n" {
		t.Errorf("pagination: %s firings, want none", said)
	}
	admin := &adminapi.Client{URL: d.origin.AdminURL(), Token: d.origin.Token()}
	await(t, "both leads at the origin", func() bool { return len(allLeads(t, admin, d.account.AccountID)) == 2 })
}
