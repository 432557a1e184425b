package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/pflag"

	"partneredge/edge/adminapi"
	"partneredge/edge/hint"
)

// TestWaitingOutlastsRestarts: one who waits for a rollout goes on while the origin does not
// answer, and ends at once where it refuses.
func TestWaitingOutlastsRestarts(t *testing.T) {
	for last, want := range map[string]string{
		`{"id":"rol_1","state":"done"}`:                   "",
		`{"error":"not_found","reason":"no_such_record"}`: "status 404",
	} {
		var asked atomic.Int64
		origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			switch asked.Add(1) {
			case 1:
				fmt.Fprint(w, `{"id":"rol_1","state":"rolling_out"}`)
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 3:
				panic(http.ErrAbortHandler)
			default:
				if want != "" {
					w.WriteHeader(http.StatusNotFound)
				}
				fmt.Fprint(w, last)
			}
		}))
		defer origin.Close()
		c := &invocation{stderr: io.Discard, admin: &adminapi.Client{URL: origin.URL}}
		r, _, err := awaitRollout(t.Context(), c, adminapi.Rollout{ID: "rol_1"})
		if want == "" && (err != nil || r.State != "done") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) || asked.Load() != 4 {
			t.Errorf("asked %d times: %v, %v, want %q", asked.Load(), r.State, err, want)
		}
	}
}

// TestWatchingOutlastsRestarts: --watch goes on while the origin does not answer, says so, and ends
// where it refuses. Without a table before, and without --watch, the first failure ends it.
func TestWatchingOutlastsRestarts(t *testing.T) {
	var asked atomic.Int64
	answers := map[string]string{"rolling": `{"items":[{"id":"rol_1","state":"rolling_out"}]}`, "done": `{"items":[{"id":"rol_1","state":"done"}]}`}
	for _, c := range []struct {
		answers, watch string
		tables, losses int
		want           string
	}{
		{"rolling 503 cut rolling 429 done", "--watch", 3, 3, ""},
		{"rolling 503 401 done", "--watch", 1, 1, "status 401"},
		{"503 done", "--watch", 0, 0, "status 503"},
		{"cut done", "--watch", 0, 0, "EOF"},
		{"rolling done", "--watch=false", 1, 0, ""},
		{"503 done", "--watch=false", 0, 0, "status 503"},
	} {
		asked.Store(0)
		origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answer := strings.Fields(c.answers)[asked.Add(1)-1]
			if answer == "cut" {
				panic(http.ErrAbortHandler)
			}
			if status, err := strconv.Atoi(answer); err == nil {
				w.WriteHeader(status)
			}
			fmt.Fprint(w, answers[answer])
		}))
		origin.Config.SetKeepAlivesEnabled(false) // over one that was used before, Go's client asks again by itself
		flags := pflag.NewFlagSet("status", pflag.ContinueOnError)
		watch := defineRolloutStatus(flags)
		if err := flags.Parse([]string{c.watch, "--every", "1ms"}); err != nil {
			t.Fatal(err)
		}
		var tables, losses bytes.Buffer
		i := &invocation{stderr: &losses, admin: &adminapi.Client{URL: origin.URL}}
		i.Out, i.JSON = &tables, true
		err := watch(t.Context(), i)
		origin.Close()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v, want %q", c.answers, c.watch, err, c.want)
		}
		if strings.Count(tables.String(), "rol_1") != c.tables || strings.Count(losses.String(), "; trying again in 1ms\n") != c.losses {
			t.Errorf("%s, %s: printed %q and %q, want %d tables and %d losses", c.answers, c.watch, &tables, &losses, c.tables, c.losses)
		}
	}
}

// TestRollbackThatLeavesNodes: no command says that a release is gone from a node that may run it
// still, since it is away or cannot go back, and none waits for a node that was never reached or is
// revoked.
func TestRollbackThatLeavesNodes(t *testing.T) {
	const every = "every node runs what it ran before; "
	back := `{"id":"node_1","name":"one","connected":true,"state":"back"}`
	for _, tt := range []struct {
		name, nodes, left, advice string
	}{
		{"all are back", back + `,{"id":"node_2","name":"two","state":"back"}`, "", every},
		{"one is away", back + `,{"id":"node_2","name":"two","state":"serving"}`, "1 of 2 nodes may run it still: two", "they go back when they are connected"},
		{"one was not heard", `{"id":"node_2","name":"two","state":"waiting"},` + back, "1 of 2 nodes may run it still: two", "they go back when they are connected"},
		{"one cannot go back", back + `,{"id":"node_2","name":"two","connected":true,"state":"serving"}`, "1 of 2 nodes may run it still: two", "edge release status shows why"},
		{"one refused it", back + `,{"id":"node_2","name":"two","state":"refused"}`, "", every},
		{"one is revoked", back + `,{"id":"node_3","name":"three","state":"waiting"}`, "", every},
		{"one was not reached", back + `,` + back + `,` + back + `,{"id":"node_2","name":"two","state":"waiting"}`, "", every},
		{"many are away", back + strings.Repeat(`,{"id":"node_2","name":"two","state":"serving"}`, namesMost+2), "12 of 13 nodes may run it still: two, two", "they go back"},
	} {
		origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/nodes") {
				fmt.Fprint(w, `{"items":[{"id":"node_3","revoked_at":"2026-01-02T03:04:05.000000Z"},{"id":"node_2","revoked_at":null}]}`)
				return
			}
			stage := 100
			if strings.Contains(tt.name, "reached") {
				stage = 75
			}
			fmt.Fprintf(w, `{"id":"rol_1","version":"1.2.0","state":"rolled_back","reason":"so it is","stage":%d,"nodes":[%s]}`, stage, tt.nodes)
		}))
		c := &invocation{stderr: io.Discard, admin: &adminapi.Client{URL: origin.URL}}
		c.Out = io.Discard
		err := changeRollout(t.Context(), c, "/releases/rel_1/rollback", nil, true, "rolled_back")
		if (err == nil) != (tt.left == "") || err != nil && (!strings.Contains(err.Error(), tt.left) || !strings.Contains(adviceOf(err), tt.advice)) {
			t.Errorf("%s: a rollback ends with %v (%s)", tt.name, err, adviceOf(err))
		}
		err = changeRollout(t.Context(), c, "/releases/rel_1/promote", nil, true, "done")
		if advice := adviceOf(err); !strings.Contains(advice, tt.left) || !strings.Contains(advice, tt.advice) || tt.left != "" && strings.Contains(advice, every) {
			t.Errorf("%s: a rollout ends with %v (%s)", tt.name, err, advice)
		}
		origin.Close()
	}
}

// TestRollbackWithoutTheNodes: where it cannot be read which nodes are revoked, a rollout still says
// why it was rolled back, and a rollback that it does not know.
func TestRollbackWithoutTheNodes(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/nodes") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"id":"rol_1","version":"1.2.0","state":"rolled_back","reason":"so it is","stage":100,"nodes":[{"id":"node_2","name":"two","state":"serving"}]}`)
	}))
	defer origin.Close()
	c := &invocation{stderr: io.Discard, admin: &adminapi.Client{URL: origin.URL}}
	c.Out = io.Discard
	err := changeRollout(t.Context(), c, "/releases/rel_1/promote", nil, true, "done")
	if err == nil || !strings.Contains(err.Error(), "so it is") || !strings.Contains(adviceOf(err), "shows which nodes run it still") {
		t.Errorf("a rollout ends with %v (%s)", err, adviceOf(err))
	}
	err = changeRollout(t.Context(), c, "/releases/rel_1/rollback", nil, true, "rolled_back")
	if err == nil || !strings.Contains(err.Error(), "reading which nodes are revoked") {
		t.Errorf("a rollback ends with %v", err)
	}
}

// adviceOf returns the advice that an error carries.
func adviceOf(err error) string {
	h, _ := errors.AsType[*hint.Error](err)
	if h == nil {
		return ""
	}
	return h.Advice
}

// TestFindRelease: the beginning of a digest names one release or none.
func TestFindRelease(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"id":"rel_1","version":"1.1.0","digest":"sha256:4bd9000000aa"},
			{"id":"rel_2","version":"1.0.0","digest":"sha256:4bd9000000bb"},{"id":"rel_3","version":"abcdef01","digest":"sha256:5000000000cc"}]}`)
	}))
	defer origin.Close()
	admin := &adminapi.Client{URL: origin.URL}
	for ref, want := range map[string]string{
		"rel_9": "rel_9", "1.0.0": "rel_2", "abcdef01": "rel_3", "4bd9000000b": "rel_2", "sha256:4bd9000000aa": "rel_1",
		"sha256:4": "none that is", "4bd9000": "none that is", "sha256:4bd9000": "none that is", "sha256:6": "none that is",
		"4bd90000": "several digests", "sha256:4bd9000000": "several digests",
	} {
		id, err := findRelease(t.Context(), admin, ref)
		if strings.HasPrefix(want, "rel_") && (err != nil || id != want) || !strings.HasPrefix(want, "rel_") && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v, want %s", ref, id, err, want)
		}
	}
}
