package console_test

import (
	"bufio"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLiveEndsWithTheOrigin: an open overview gets news, and does not keep the
// origin from stopping.
func TestLiveEndsWithTheOrigin(t *testing.T) {
	f := newFixture(t)
	f.startNode("eu-west", 100)
	b := f.login(f.Token())
	req, err := http.NewRequestWithContext(t.Context(), "GET", f.AdminURL()+"/console/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("type %s", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	if !lines.Scan() || lines.Text() != "event: live" || !lines.Scan() || !strings.HasPrefix(lines.Text(), "data: ") {
		t.Fatalf("read %q, %v", lines.Text(), lines.Err())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Errorf("stopping with a page open: %v", err)
	}
	for lines.Scan() { // to its end
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
}

// TestReleasesAskForNodesOnce: the page of releases reads the nodes of the newest rollout
// alone, for those of all would be more than a client reads.
func TestReleasesAskForNodesOnce(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	before := len(f.asked.String())
	b.get("releases")
	var rollouts []string
	for _, asked := range strings.Split(f.asked.String()[before:], "\n") {
		if strings.Contains(asked, "/rollouts") {
			rollouts = append(rollouts, asked)
		}
	}
	slices.Sort(rollouts)
	if want := []string{"GET /admin/v1/rollouts?limit=1", "GET /admin/v1/rollouts?limit=200&nodes=false"}; !slices.Equal(rollouts, want) {
		t.Errorf("the page asks for %q, want %q", rollouts, want)
	}
}

// TestLiveAsksLittle: what is read every two seconds is the newest rollout and the latest
// numbers, no list that grows, and whether the viewer's token is valid still.
func TestLiveAsksLittle(t *testing.T) {
	for path, want := range map[string]string{
		"live":          "GET /admin/v1/outcomes\nGET /admin/v1/traffic\nGET /admin/v1/whoami",
		"releases/live": "GET /admin/v1/nodes?limit=200\nGET /admin/v1/rollouts?limit=1\nGET /admin/v1/whoami",
	} {
		f := newFixture(t) // of its own: a page that was left may ask once more
		b := f.login(f.Token())
		before := len(f.asked.String())
		b.live(path)
		asked := strings.Split(strings.TrimSpace(f.asked.String()[before:]), "\n")
		slices.Sort(asked)
		if got := strings.Join(slices.Compact(asked), "\n"); got != want {
			t.Errorf("%s asks\n%s\nwant\n%s", path, got, want)
		}
	}
}
