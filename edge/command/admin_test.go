package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// TestChangesThatWereNotMade: a command whose change was redirected, or is answered without
// the key that it is to print, fails and prints nothing.
func TestChangesThatWereNotMade(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"acc_1"}`) }))
	defer origin.Close()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, origin.URL+r.URL.Path, http.StatusMovedPermanently)
	}))
	defer proxy.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	redirected := []string{"redirect to " + origin.URL + "\n", "hint: is that the admin API's address? then give it as --admin"}
	for _, c := range []struct {
		address, args string
		want          []string
	}{
		{proxy.URL, "account delete acc_1 --yes", redirected},
		{proxy.URL, "key create acc_1", redirected},
		{proxy.URL, "key revoke key_1", redirected},
		{origin.URL, "key create acc_1", []string{"the answer has no plaintext"}},
		{origin.URL, "key create acc_1 --json", []string{"the answer has no plaintext"}},
	} {
		var stdout, stderr bytes.Buffer
		args := append(strings.Fields(c.args), "--admin", c.address, "--token-file", token)
		if code := Main(t.Context(), "test", args, &stdout, &stderr); code != exitFailed || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d, printed %q", c.args, code, &stdout)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("%s: %q, want %q", c.args, &stderr, want)
			}
		}
	}
}

// TestEmptyChoices: a flag that chooses some, given without any, is refused before the origin
// is asked. It would choose all.
func TestEmptyChoices(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{}`)
	}))
	defer origin.Close()
	token := written(t, filepath.Join(t.TempDir(), "token"), []byte("secret"))
	for _, tt := range []struct {
		args string
		flag string
		want string
	}{
		{"release rollout rel_1", "--nodes", "--nodes is empty"},
		{"release rollout rel_1", "--regions", "--regions is empty"},
		{"release rollout rel_1", "--stages", "--stages is empty"},
		{"key create acc_1", "--allow", "--allow is empty"},
		{"key create acc_1", "--scopes", "--scopes is empty"},
		{"account export acc_1", "--out", "--out is empty"},
		{"node enrol --name a --region eu", "--out", "--out is empty"},
		{"release verify rel_1", "--min", "--min "},
		{"delivery recover --all", "--since", "is neither a time"},
		{"delivery recover whk_1", "--until", "is neither a time"},
	} {
		for _, empty := range []string{"", ",", " , "} {
			if tt.flag == "--out" && empty != "" { // a name of a file
				continue
			}
			var stdout, stderr bytes.Buffer
			args := append(strings.Fields(tt.args), tt.flag, empty, "--admin", origin.URL, "--token-file", token)
			if code := Main(t.Context(), "test", args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("%s %s %q: exit code %d, %q", tt.args, tt.flag, empty, code, &stderr)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the origin was asked %d times", n)
	}
}

// unwritable is a standard output on a full disk.
type unwritable struct{}

func (unwritable) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// makesSecrets is an origin that answers with every secret that is shown once.
func makesSecrets(t *testing.T) (where []string) {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"key":{"id":"key_1"},"token":{"id":"tok_1"},"webhook":{"id":"whk_1"},"node":{"id":"node_1"},"plaintext":"p","secret":"s","credentials":"c"}`)
	}))
	t.Cleanup(origin.Close)
	return []string{"--admin", origin.URL, "--token-file", written(t, filepath.Join(t.TempDir(), "token"), []byte("secret"))}
}

// TestSecretsThatCannotBeShown: whoever loses what is shown only once is told of what, and how
// to void it.
func TestSecretsThatCannotBeShown(t *testing.T) {
	t.Parallel()
	where := makesSecrets(t)
	for _, tt := range []struct{ args, want, advice string }{
		{"key create acc_1", "key key_1 is made", "edge key revoke key_1, and make another"},
		{"key rotate key_0", "key key_1 is made", "edge key revoke key_1, and make another"},
		{"token create --name n", "token tok_1 is made", "edge token revoke tok_1, and make another"},
		{"webhook rotate whk_1", "the new secret of webhook whk_1 is made", "edge webhook rotate whk_1 makes another"},
		{"node enrol --name n --region eu", "node node_1 is made", "edge node revoke node_1, and make another"},
		{"node enrol --name n --region eu --out " + filepath.Join(t.TempDir(), "none", "file"), "node node_1 is made", "edge node revoke node_1, and make another"},
	} {
		for _, form := range []string{"", "--json"} {
			var stderr bytes.Buffer
			args := append(strings.Fields(tt.args+" "+form), where...)
			code := Main(t.Context(), "test", args, unwritable{}, &stderr)
			for _, want := range []string{"edge: " + tt.want + ", but what is shown once is lost: ", "hint: " + tt.advice + "\n"} {
				if code != exitFailed || !strings.Contains(stderr.String(), want) {
					t.Errorf("%s %s: exit code %d, %q, want %q", tt.args, form, code, &stderr, want)
				}
			}
		}
	}
}

// TestInterruptedQuestions: a command that is interrupted before the origin has answered has
// not done its work, and does not ask whether the origin runs.
func TestInterruptedQuestions(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"status", "status --watch", "release status", "release status --watch", "key list acc_1"} {
		ctx, interrupt := context.WithCancel(t.Context())
		origin := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
			panic(http.ErrAbortHandler) // or the answer might still be read
		}))
		token := written(t, filepath.Join(t.TempDir(), "token"), []byte("secret"))
		var stdout, stderr bytes.Buffer
		code := Main(ctx, "test", append(strings.Fields(args), "--admin", origin.URL, "--token-file", token), &stdout, &stderr)
		origin.Close()
		if code != exitFailed || !strings.HasSuffix(stderr.String(), ": context canceled\n") {
			t.Errorf("%s: exit code %d, %q", args, code, &stderr)
		}
	}
}

// TestRecoverGoesOn: edge delivery recover asks on where an answer ended, and says how many were
// queued before an error.
func TestRecoverGoesOn(t *testing.T) {
	t.Parallel()
	for args, path := range map[string]string{"whs_1": "/admin/v1/webhooks/whs_1/recover", "--all": "/admin/v1/deliveries/recover"} {
		for fails, want := range map[string]string{
			"":        "",
			"cut":     "after 2000 deliveries were queued: admin API: ",
			"refused": "after 2000 deliveries were queued: the origin refused: since is too long ago\nhint: look at its state first",
		} {
			var asked []string
			origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				_, cursor, _ := strings.Cut(string(body), `"cursor":`)
				asked = append(asked, r.URL.Path+" "+cursor)
				switch {
				case len(asked) == 1:
					fmt.Fprint(w, `{"queued":2000,"next_cursor":"evt_1"}`)
				case fails == "cut":
					panic(http.ErrAbortHandler)
				case fails == "refused":
					w.WriteHeader(http.StatusConflict)
					fmt.Fprint(w, `{"error":"conflict","detail":"since is too long ago"}`)
				default:
					fmt.Fprint(w, `{"queued":3,"next_cursor":null}`)
				}
			}))
			token := written(t, filepath.Join(t.TempDir(), "token"), []byte("secret"))
			var stdout, stderr bytes.Buffer
			code := Main(t.Context(), "test", []string{"delivery", "recover", args, "--since", "1h", "--admin", origin.URL, "--token-file", token}, &stdout, &stderr)
			origin.Close()
			if want := []string{path + " ", path + ` "evt_1"}`}; !slices.Equal(asked, want) {
				t.Errorf("%s asks %q, want %q", args, asked, want)
			}
			if fails != "" {
				if code != exitFailed || !strings.Contains(stderr.String(), want) {
					t.Errorf("%s: exit code %d, %q, want %q", args, code, &stderr, want)
				}
			} else if code != 0 || strings.Join(strings.Fields(stdout.String()), " ") != "queued 2003" {
				t.Errorf("%s: exit code %d, %q, %q", args, code, &stdout, &stderr)
			}
		}
	}
}
