package command

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"partneredge/edge/webhook/signature"
	"partneredge/wasm/contract/vectors"
)

// needTool skips a test loudly where a program of another language is missing.
func needTool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("EDGE_REQUIRE_VERIFIERS") != "" && name != "java" {
		t.Fatalf("the example needs %s", name)
	}
	t.Skipf("NOT TESTED: the example needs %s", name)
}

// TestDocsSamples runs every sample of the reference as it stands on the page, against
// what `edge dev` runs.
func TestDocsSamples(t *testing.T) {
	t.Parallel()
	d := startDevForTest(t, t.TempDir())
	base := d.nodes[0].URL()
	resp, err := http.Get(base + "/") // which leads there
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.Request.URL.Path != "/docs" {
		t.Fatalf("GET / leads to %s: %v", resp.Request.URL, err)
	}
	env := append(os.Environ(), "EDGE_URL="+base, "LIVE="+d.account.Keys.Live, "TEST="+d.account.Keys.Test, "no_proxy=*", "NO_PROXY=*")
	samples := regexp.MustCompile(`(?s)<section class="operation" id="([^"]*)"|<details class="sample".*?<span>([^<]*)</span></summary><pre tabindex="0"><code>(.*?)</code></pre>`)
	operation, id, seen := "", "", 0
	for _, m := range samples.FindAllStringSubmatch(string(page), -1) {
		if m[1] != "" {
			operation = m[1]
			continue
		}
		seen++
		t.Run(operation+"/"+m[2], func(t *testing.T) {
			command := strings.Fields(m[2])
			needTool(t, command[0])
			if command[0] == "sh" {
				needTool(t, "curl")
				needTool(t, "openssl")
			}
			if once := strings.Contains(m[3], "Idempotency-Key"); once != slices.Contains([]string{"createLead", "subscribe"}, operation) {
				t.Errorf("has an Idempotency-Key: %t\n%s", once, html.UnescapeString(m[3]))
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, command[len(command)-1]), []byte(html.UnescapeString(m[3])), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Dir, cmd.Env = dir, append(env, "ID="+id)
			var complaints bytes.Buffer
			cmd.Stderr = &complaints
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, html.UnescapeString(m[3]), &complaints)
			}
			if text := string(out); strings.Contains(text, `"error"`) || strings.Contains(text, "error:") || !strings.Contains(text, "{") {
				t.Errorf("the sample says %s", text)
			}
			if found := regexp.MustCompile(`whs_[0-9a-z]{26}`).FindString(string(out)); found != "" {
				id = found // for the samples that revoke
			}
		})
	}
	if seen != 6*4 {
		t.Errorf("%d samples, want one of each language for each of six operations", seen)
	}
}

// vector is a case of wasm/contract/vectors.
type vector struct {
	Name   string
	Header *string
	Body   string
	Valid  bool
}

// readVectors returns the vectors as if the time were now: receivers ask the clock.
func readVectors(t *testing.T) (secret string, all []vector) {
	t.Helper()
	var v struct {
		Now    int64
		Secret string
		Cases  []vector
	}
	if err := json.Unmarshal(vectors.Signatures(), &v); err != nil {
		t.Fatal(err)
	}
	return v.Secret, v.Cases
}

// TestSignatureVectors holds the vectors against the package that signs deliveries.
func TestSignatureVectors(t *testing.T) {
	secret, all := readVectors(t)
	for _, v := range all {
		header := ""
		if v.Header != nil {
			header = *v.Header
		}
		err := signature.Verify(header, []byte(v.Body), signature.DefaultTolerance, time.Unix(1772460311, 0), secret)
		if (err == nil) != v.Valid {
			t.Errorf("%s: %v, want valid %t", v.Name, err, v.Valid)
		}
	}
}

// clocks replace what each example asks for the time, so that it judges at the vectors'.
var clocks = map[string][2]string{
	"go":     {"time.Since(time.Unix(unix, 0))", "time.Unix(1772460311, 0).Sub(time.Unix(unix, 0))"},
	"js":     {"Date.now() / 1000", "1772460311"},
	"python": {"time.time()", "1772460311"},
	"ruby":   {"Time.now.to_i", "1772460311"},
	"php":    {"time()", "1772460311"},
	"java":   {"System.currentTimeMillis() / 1000", "1772460311L"},
}

// verifyingExample returns the guide's example of verifying in a language, by the vectors'
// clock.
func verifyingExample(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../node/openapi/guide/verifying.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatal("no example")
	}
	clock := clocks[language]
	if strings.Count(string(m[1]), clock[0]) != 1 {
		t.Fatalf("%s is not where this test looks for it", clock[0])
	}
	return strings.Replace(string(m[1]), clock[0], clock[1], 1)
}

// TestDocsVerifiers runs the guide's snippets against the vectors: each is wrapped in a
// program that reads the vectors and prints a line of true or false for each case.
// TestDocsReceivers does so with whole programs.
func TestDocsVerifiers(t *testing.T) {
	secret, all := readVectors(t)
	// Fields as base64 lines: header or "-" for none, then the body.
	programs := map[string]struct {
		file, before, after string
		run                 []string
	}{
		"ruby": {"main.rb", "", `
require "json"
v = JSON.parse(File.read(ARGV[0], encoding: "utf-8"))
v["cases"].each { |c| puts verify(c["header"], c["body"], v["secret"]) }
raise "bytes that are no UTF-8 are taken" if verify("t=\xff,v1=\xff", "", v["secret"])
`, []string{"ruby", "main.rb"}},
		"php": {"main.php", "<?php\n", `
$v = json_decode(file_get_contents($argv[1]), true);
foreach ($v['cases'] as $c) echo verify($c['header'], $c['body'], $v['secret']) ? "true\n" : "false\n";
`, []string{"php", "main.php"}},
		"java": {"Main.java", "", `
class Main {
    public static void main(String[] args) throws Exception {
        for (String line : java.nio.file.Files.readAllLines(java.nio.file.Path.of(args[1]))) {
            String[] f = line.split(" ", -1);
            String header = f[0].equals("-") ? null : new String(java.util.Base64.getDecoder().decode(f[0]), StandardCharsets.UTF_8);
            System.out.println(Webhook.verify(header, java.util.Base64.getDecoder().decode(f[1]), args[2]));
        }
    }
}
`, []string{"java", "Main.java"}},
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("vectors.json", string(vectors.Signatures()))
	write("vectors.txt", vectorLines(all))
	for language, p := range programs {
		t.Run(language, func(t *testing.T) {
			needTool(t, p.run[0])
			program := verifyingExample(t, language)
			if language == "java" { // the class that is run comes first
				i := strings.Index(program, "final class")
				program = program[:i] + p.after + program[i:]
				p.after = ""
			}
			write(p.file, p.before+program+p.after)
			cmd := exec.Command(p.run[0], append(p.run[1:], "vectors.json", "vectors.txt", secret)...)
			cmd.Dir = dir
			var complaints bytes.Buffer
			cmd.Stderr = &complaints
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &complaints)
			}
			got := strings.Fields(string(out))
			if len(got) != len(all) {
				t.Fatalf("%d answers to %d cases: %s", len(got), len(all), out)
			}
			for i, v := range all {
				if got[i] != strconv.FormatBool(v.Valid) {
					t.Errorf("%s: %s, want %t", v.Name, got[i], v.Valid)
				}
			}
		})
	}
}

// vectorLines writes the cases for languages without a JSON reader of their own.
func vectorLines(all []vector) string {
	var b strings.Builder
	for _, v := range all {
		header := "-"
		if v.Header != nil {
			header = base64Of(*v.Header)
		}
		fmt.Fprintf(&b, "%s %s\n", header, base64Of(v.Body))
	}
	return b.String()
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
