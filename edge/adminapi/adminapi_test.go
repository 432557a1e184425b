package adminapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
)

// TestTypesAreThoseOfTheDocument checks that each schema of the OpenAPI document
// has a type with the same fields, and that an answer always has the fields that
// the schema requires.
func TestTypesAreThoseOfTheDocument(t *testing.T) {
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]json.RawMessage
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(adminapi.OpenAPI(), &document); err != nil {
		t.Fatal(err)
	}
	requests := types(adminapi.NewAccount{}, adminapi.AccountPatch{}, adminapi.NewKey{}, adminapi.Rotation{}, adminapi.NewCoachingRun{},
		adminapi.NewFiring{}, adminapi.NewStage{}, adminapi.NewContact{}, adminapi.NewPace{}, adminapi.SecretRotation{},
		adminapi.Recovery{}, adminapi.NewNode{}, adminapi.NewRelease{}, adminapi.NewRollout{}, adminapi.NewToken{}, adminapi.MendedLead{},
		adminapi.LockoutSelection{}, adminapi.NewTombstone{}, adminapi.NewRegion{})
	answers := types(adminapi.Account{}, adminapi.Agent{}, adminapi.Key{}, adminapi.MintedKey{}, adminapi.RotatedKey{},
		adminapi.Insight{}, adminapi.CoachingRun{}, adminapi.Firing{}, adminapi.Deal{}, adminapi.Contact{}, adminapi.Goal{},
		adminapi.Lead{}, adminapi.QuarantinedLead{}, adminapi.Webhook{}, adminapi.RotatedSecret{}, adminapi.Delivery{}, adminapi.Try{}, adminapi.Tried{},
		adminapi.Recovered{}, adminapi.Outcomes{}, adminapi.Node{}, adminapi.NodeStatus{}, adminapi.NodeRelease{},
		adminapi.EnrolledNode{}, adminapi.Traffic{}, adminapi.RegionTraffic{}, adminapi.TrafficPoint{}, adminapi.Release{},
		adminapi.Rollout{}, adminapi.RolloutNode{}, adminapi.Token{}, adminapi.MintedToken{}, adminapi.Whoami{}, adminapi.Actor{},
		adminapi.Audit{}, adminapi.Problem{},
		adminapi.ErasedAccount{}, adminapi.Tombstone{}, adminapi.Lockouts{}, adminapi.Lockout{}, adminapi.UnreachedNode{}, adminapi.ClearedLockouts{},
		adminapi.Requests{}, adminapi.Request{}, adminapi.EnrolledRegion{}, adminapi.Region{}, adminapi.KeyUse{}, adminapi.KeyDay{})
	for name, schema := range document.Components.Schemas {
		if name == "Empty" || strings.HasSuffix(name, "List") {
			continue
		}
		record, request := requests[name]
		if !request {
			record = answers[name]
		}
		delete(requests, name)
		delete(answers, name)
		if record == nil {
			t.Errorf("no type has the name of the schema %s", name)
			continue
		}
		all, always := fields(record)
		if want := slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(all, want) {
			t.Errorf("%s has the fields %v, its schema %v", name, all, want)
		}
		switch slices.Sort(schema.Required); {
		case request && len(always) > 0:
			t.Errorf("%s cannot leave out %v", name, always)
		case !request && !slices.Equal(always, schema.Required):
			t.Errorf("%s always has %v, its schema requires %v", name, always, schema.Required)
		}
	}
	for name := range requests {
		t.Errorf("no schema has the name of the type %s", name)
	}
	for name := range answers {
		t.Errorf("no schema has the name of the type %s", name)
	}
}

func types(records ...any) map[string]reflect.Type {
	all := make(map[string]reflect.Type)
	for _, record := range records {
		all[reflect.TypeOf(record).Name()] = reflect.TypeOf(record)
	}
	return all
}

// fields returns the names of all fields in JSON, and of those that are there
// even when they are zero.
func fields(record reflect.Type) (all, always []string) {
	for _, field := range reflect.VisibleFields(record) {
		if field.Anonymous { // its fields follow
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		all = append(all, name)
		if options == "" {
			always = append(always, name)
		}
	}
	slices.Sort(all)
	slices.Sort(always)
	return all, always
}

// clients returns a client over HTTP and one in process, of the same API.
func clients(t *testing.T, api http.HandlerFunc) map[string]*adminapi.Client {
	t.Helper()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	return map[string]*adminapi.Client{
		"HTTP": {URL: server.URL, Token: "secret"},
		"in process": {URL: "http://origin", Token: "secret",
			HTTP: &http.Client{Transport: adminapi.Handler{Handler: api, RemoteAddr: "127.0.0.1:1"}}},
	}
}

func TestCall(t *testing.T) {
	for name, client := range clients(t, func(w http.ResponseWriter, r *http.Request) {
		var in adminapi.NewNode
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		if r.Method != "POST" || r.URL.Path != "/admin/v1/nodes" || r.Header.Get("Authorization") != "Bearer secret" ||
			r.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(r.RemoteAddr, "127.0.0.1:") {
			t.Errorf("%s %s of %s: %v", r.Method, r.URL, r.RemoteAddr, r.Header)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"node": {"id": "node_1", "name": %q, "region": %q, "created_at": "2026-01-02T03:04:05.000006Z", "revoked_at": null}, "credentials": "c"}`,
			*in.Name, *in.Region)
	}) {
		made, err := client.EnrolNode(t.Context(), "a", "eu")
		want := adminapi.EnrolledNode{Credentials: "c", Node: adminapi.Node{ID: "node_1", Name: "a", Region: "eu",
			CreatedAt: adminapi.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)}}}
		if err != nil || !reflect.DeepEqual(made, want) {
			t.Errorf("%s: got %+v, %v", name, made, err)
		}
	}
}

func TestCallWithoutBodies(t *testing.T) {
	for name, client := range clients(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 || r.Header.Get("Content-Type") != "" {
			t.Errorf("a body of %d bytes, %v", r.ContentLength, r.Header)
		}
		fmt.Fprint(w, `{"ignored": 1}`)
	}) {
		if err := client.Call(t.Context(), "POST", "/keys/key_1/revoke", nil, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestError(t *testing.T) {
	for name, client := range clients(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusConflict)
		if r.URL.Path == "/admin/v1/problem" {
			fmt.Fprint(w, `{"error": "conflict", "reason": "not_rolled_out", "detail": "it is not"}`)
		} else {
			fmt.Fprint(w, "<html>of a proxy")
		}
	}) {
		for path, want := range map[string]struct {
			adminapi.Problem
			text string
		}{
			"/problem": {adminapi.Problem{Kind: "conflict", Reason: "not_rolled_out", Detail: "it is not"},
				"admin API: GET /problem: status 409: conflict not_rolled_out: it is not"},
			"/other": {adminapi.Problem{}, "admin API: GET /other: status 409"},
		} {
			err := client.Call(t.Context(), "GET", path, nil, new(adminapi.Account))
			got, ok := errors.AsType[*adminapi.Error](err)
			if !ok || got.Status != http.StatusConflict || got.Problem != want.Problem || err.Error() != want.text {
				t.Errorf("%s: %s is %#v", name, path, err)
			}
		}
	}
}

// TestRedirectIsAnError: a change that is redirected is not sent as a read to where the
// redirect leads, and the error says where that is.
func TestRedirectIsAnError(t *testing.T) {
	for name, client := range clients(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			t.Errorf("%s /: the redirect was followed", r.Method)
			fmt.Fprint(w, "{}")
			return
		}
		status, _ := strconv.Atoi(path.Base(r.URL.Path))
		to := "/"
		if r.URL.RawQuery != "" {
			to = "https://edge.example.com" + r.URL.RequestURI()
		}
		http.Redirect(w, r, to, status)
	}) {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for to, call := range map[string]func() error{
				client.URL + "/": func() error {
					_, err := client.EraseAccount(t.Context(), strconv.Itoa(status))
					return err
				},
				"https://edge.example.com": func() error {
					return client.Call(t.Context(), "POST", fmt.Sprintf("/keys/%d?a=b", status), adminapi.NewKey{}, nil)
				},
			} {
				err := call()
				got, ok := errors.AsType[*adminapi.Error](err)
				if !ok || got.Status != status || got.Location != to || !strings.HasSuffix(err.Error(), ": redirect to "+to) {
					t.Errorf("%s: %d to %s: %v", name, status, to, err)
				}
			}
		}
	}
}

func TestCallReportsBrokenAnswers(t *testing.T) {
	for name, client := range clients(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "no JSON") }) {
		if _, err := client.CreateKey(t.Context(), "acc_1", adminapi.NewKey{}); err == nil || !strings.HasPrefix(err.Error(), "admin API: POST /accounts/acc_1/keys: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCallReportsLongAnswers: what is longer than is read is not taken for broken JSON.
func TestCallReportsLongAnswers(t *testing.T) {
	const most = 16 << 20
	for name, client := range clients(t, func(w http.ResponseWriter, r *http.Request) {
		size := most
		if r.Method == http.MethodPost {
			size++
		}
		_, _ = w.Write([]byte(`"` + strings.Repeat("x", size-2) + `"`))
	}) {
		var text string
		if err := client.Call(t.Context(), http.MethodGet, "/long", nil, &text); err != nil || len(text) != most-2 {
			t.Errorf("%s: %d characters, %v", name, len(text), err)
		}
		if err := client.Call(t.Context(), http.MethodPost, "/long", nil, &text); !errors.Is(err, adminapi.ErrTooLong) || !strings.Contains(err.Error(), "16 MiB") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestErasuresHaveNoTimeout: what may take minutes is waited for.
func TestErasuresHaveNoTimeout(t *testing.T) {
	for name, client := range clients(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "  {\"id\": \"acc_1\"}") }) {
		hurried := &http.Client{Timeout: 1} // over before it begins
		if client.HTTP != nil {
			hurried.Transport = client.HTTP.Transport
		}
		client.HTTP = hurried
		if gone, err := client.EraseAccount(t.Context(), "acc_1"); err != nil || gone.ID != "acc_1" {
			t.Errorf("%s: %v, %v", name, gone, err)
		}
		if buried, err := client.Bury(t.Context(), adminapi.NewTombstone{}); err != nil || buried.ID != "acc_1" {
			t.Errorf("%s: %v, %v", name, buried, err)
		}
	}
}

func TestAll(t *testing.T) {
	for name, client := range clients(t, func(w http.ResponseWriter, r *http.Request) {
		page := adminapi.List[adminapi.Token]{Items: []adminapi.Token{{ID: r.URL.RawQuery}}}
		if cursor := r.URL.Query().Get("cursor"); cursor == "fail" {
			w.WriteHeader(http.StatusInternalServerError)
		} else if page.NextCursor = "b+ c"; cursor == "b+ c" {
			page.NextCursor = adminapi.Cursor(r.URL.Query().Get("last"))
		}
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	}) {
		query := url.Values{"limit": {"7"}}
		if got, err := all(t.Context(), client, query); err != nil || !slices.Equal(got, []string{"limit=7", "cursor=b%2B+c&limit=7"}) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		if len(query) != 1 {
			t.Errorf("%s: the caller's query is %v", name, query)
		}
		got, err := all(t.Context(), client, url.Values{"last": {"fail"}})
		if failed, ok := errors.AsType[*adminapi.Error](err); !ok || failed.Status != 500 || len(got) != 2 || got[0] != "last=fail&limit=200" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
		for token, err := range adminapi.All[adminapi.Token](t.Context(), client, "/tokens", nil) {
			if err != nil || token.ID != "limit=200" {
				t.Errorf("%s: first is %v, %v", name, token, err)
			}
			break
		}
	}
}

func all(ctx context.Context, client *adminapi.Client, query url.Values) (ids []string, err error) {
	for token, err := range adminapi.All[adminapi.Token](ctx, client, "/tokens", query) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, token.ID)
	}
	return ids, nil
}

func TestTime(t *testing.T) {
	eastern := time.FixedZone("", -5*3600)
	for text, at := range map[string]adminapi.Time{
		`null`:                          {},
		`"2026-01-02T08:04:05.600000Z"`: {Time: time.Date(2026, 1, 2, 3, 4, 5, 600_000_789, eastern)},
	} {
		if got, err := json.Marshal(at); err != nil || string(got) != text {
			t.Errorf("%v is %s, %v", at, got, err)
		}
		var read adminapi.Time
		if err := json.Unmarshal([]byte(text), &read); err != nil || !read.Equal(at.Truncate(time.Microsecond)) {
			t.Errorf("%s is read as %v, %v", text, read, err)
		}
	}
}
