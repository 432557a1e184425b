package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"partneredge/edge/adminapi"
	"partneredge/store"
	"partneredge/store/central/deliveries"
)

var secretField = regexp.MustCompile(`<pre id="secret\d*"[^>]*>([^<]+)</pre>`)

func TestLoginAndHeaders(t *testing.T) {
	f := newFixture(t)
	b := f.browser()
	resp, text := b.get("")
	if resp.Request.URL.Path != "/console/login" || !strings.Contains(text, "Log in") || !strings.Contains(text, "edge token create --name NAME --role ROLE") {
		t.Errorf("without a session: %s", resp.Request.URL)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
		"X-Frame-Options": "DENY", "Cache-Control": "no-store",
	} {
		if got := resp.Header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q", name, got)
		}
	}
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %s", policy)
	}
	if resp, text := b.post("login", url.Values{"token": {"edgeadm_wrong"}}); resp.StatusCode != 401 || !strings.Contains(text, "not a token") {
		t.Errorf("a wrong token: %d", resp.StatusCode)
	}
	if resp, _ := b.post("login", url.Values{"token": {f.Token()}, "csrf": {strings.Repeat("0", 64)}}); resp.StatusCode != 403 {
		t.Errorf("a login form of another: %d", resp.StatusCode)
	}
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, _ = b.post("login", url.Values{"token": {f.Token()}})
	if resp.StatusCode != 303 {
		t.Fatalf("login: %d", resp.StatusCode)
	}
	for _, c := range resp.Cookies() {
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/console/" || strings.Contains(c.Value, f.Token()) {
			t.Errorf("cookie %s", c)
		}
	}
	b.client.CheckRedirect = nil
	if _, text := b.get(""); strings.Contains(text, f.Token()) {
		t.Error("the page shows the token")
	}
	if resp, _ := b.get("nowhere"); resp.StatusCode != 404 {
		t.Errorf("an unknown page: %d", resp.StatusCode)
	}
	if resp, _ := b.post("logout", nil); resp.Request.URL.Path != "/console/login" {
		t.Errorf("logout led to %s", resp.Request.URL)
	}
	if resp, _ := b.get("accounts"); resp.Request.URL.Path != "/console/login" {
		t.Errorf("after logout: %s", resp.Request.URL)
	}
	if strings.Contains(f.logs.String(), f.Token()) {
		t.Error("the log holds the token")
	}
}

// TestForms does everything that the pages offer, and finds it in the audit log.
func TestForms(t *testing.T) {
	f := newFixture(t)
	_, admin := f.token("admin")
	b := f.login(admin)
	account := "accounts/" + f.account.ID

	_, text := b.get(account)
	if !strings.Contains(text, "Harbor Realty &lt;&amp; Söhne&gt;") {
		t.Error("the account's name is not there, or not escaped")
	}
	if resp, text := b.post(account+"/export", nil); resp.Header.Get("Content-Disposition") != `attachment; filename="`+f.account.ID+`.jsonl"` ||
		!strings.Contains(text, `{"kind":"end","record":{"counts":{"account":1,"contact":3,`) {
		t.Errorf("an export: %d %s", resp.StatusCode, text)
	}
	if resp, _ := b.post(account+"/export", url.Values{"csrf": {"x"}}); resp.StatusCode != 403 {
		t.Errorf("an export by another site's form: %d", resp.StatusCode)
	}
	if resp, _ := b.post("accounts/acc_none/export", nil); resp.StatusCode != 404 {
		t.Errorf("an export of no account: %d", resp.StatusCode)
	}
	shownOnce := func(what, path string, form url.Values) string {
		t.Helper()
		_, text := b.post(path, form)
		found := secretField.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s shows no secret: %s", what, text)
		}
		if _, again := b.get("accounts"); strings.Contains(again, found[1]) {
			t.Errorf("%s is shown twice", what)
		}
		return found[1]
	}
	key := shownOnce("a key", account+"/keys", url.Values{"environment": {"live"}, "scope": {"read:agent"}, "own_scopes": {"x:quotes, x:rates"}, "label": {"mine"}, "allowlist": {"192.0.2.7, 198.51.100.0/24"}, "rate": {"250"}})
	if !strings.HasPrefix(key, "svc_live_") {
		t.Errorf("key %q", key)
	}
	keys, _, err := f.db.Keys(t.Context(), f.account.ID, store.Page{})
	if err != nil || len(keys) != 1 || keys[0].RateLimit != 250 || len(keys[0].Allowlist) != 2 || keys[0].Label != "mine" ||
		!slices.Equal(keys[0].Scopes, []string{"read:agent", "x:quotes", "x:rates"}) {
		t.Fatalf("%+v %v", keys, err)
	}
	of := func(more url.Values) url.Values {
		v := url.Values{"account": {f.account.ID}}
		maps.Copy(v, more)
		return v
	}
	shownOnce("a successor", "keys/"+keys[0].ID+"/rotate", of(url.Values{"grace_days": {"1"}}))
	if _, text := b.post("keys/"+keys[0].ID+"/rotate", of(nil)); !strings.Contains(text, "Not done") {
		t.Error("rotating twice is not refused in words")
	}
	if _, text := b.post("keys/"+keys[0].ID+"/revoke", of(nil)); !strings.Contains(text, "Key revoked") {
		t.Errorf("revoke: %s", text)
	}
	if _, text := b.post(account+"/mode", url.Values{"mode": {"setup"}}); !strings.Contains(text, "Switch live") {
		t.Error("not in setup")
	}
	if _, text := b.post(account+"/mode", url.Values{"mode": {"live"}}); !strings.Contains(text, "Set to setup") {
		t.Error("not live")
	}
	if _, text := b.post("accounts", url.Values{"name": {"Second"}, "full_name": {"Bo"}, "email": {"bo@example.com"}}); !strings.Contains(text, "Account made") {
		t.Errorf("account: %s", text)
	}
	if _, text := b.post("accounts", url.Values{"name": {"Third"}, "full_name": {"Bo"}, "email": {"nonsense"}}); !strings.Contains(text, "not an e-mail address") {
		t.Error("a bad address is not refused in words")
	}
	if _, text := b.get("webhooks"); !strings.Contains(text, f.webhook.TargetURL) || strings.Contains(text, f.webhook.Secret) {
		t.Error("the subscriptions lack the target, or show a secret")
	}
	if _, text := b.get("webhooks/" + f.webhook.ID); !strings.Contains(text, store.EventClientContacted) {
		t.Error("the log is empty")
	}
	if _, text := b.get("webhooks/" + f.webhook.ID + "?outcome=failed"); !strings.Contains(text, "Nothing failed in the log") {
		t.Error("the outcome picks nothing")
	}
	delivery := f.deliveries()[0]
	if err := f.db.RecordOutcomes(t.Context(), []deliveries.Outcome{{State: store.StateCancelled, Attempt: store.Attempt{DeliveryID: delivery}}}); err != nil {
		t.Fatal(err)
	}
	if _, text := b.get("deliveries/" + delivery); !strings.Contains(text, `/`+delivery+`/retry"`) {
		t.Error("the page of a cancelled delivery does not offer to retry it")
	}
	if _, text := b.post("deliveries/"+delivery+"/retry", url.Values{"webhook": {f.webhook.ID}}); !strings.Contains(text, "Queued again.") {
		t.Errorf("a cancelled delivery is not queued again: %s", text)
	}
	if _, text := b.post("webhooks/"+f.webhook.ID+"/recover", url.Values{"hours": {"2"}}); !strings.Contains(text, "queued again: 0") {
		t.Error("recover says nothing")
	}
	if _, text := b.post("webhooks/"+f.webhook.ID+"/recover", url.Values{"hours": {"2h"}}); !strings.Contains(text, `name="hours" value="2h"`) {
		t.Error("hours that were refused are not filled in again")
	}
	if _, text := b.get("events/" + f.eventOf(delivery)); !strings.Contains(text, f.webhook.ID) {
		t.Error("the log of the event lacks the subscription")
	}
	secret := shownOnce("a signing secret", "webhooks/"+f.webhook.ID+"/secret", url.Values{"overlap_hours": {"24"}})
	endpoints, err := f.db.Endpoints(t.Context(), []string{f.webhook.ID})
	if err != nil || len(endpoints[f.webhook.ID].Secrets) != 2 || endpoints[f.webhook.ID].Secrets[0] != secret {
		t.Errorf("the secret is another: %v", err)
	}
	if _, text := b.post("webhooks/"+f.webhook.ID+"/secret", url.Values{"overlap_hours": {"24"}}); !strings.Contains(text, "Not done: the secret before") {
		t.Errorf("the form of a new secret sent twice: %s", text)
	}
	if _, text := b.post("webhooks/"+f.webhook.ID+"/revoke", url.Values{"webhook": {f.webhook.ID}}); !strings.Contains(text, "Subscription revoked") || strings.Contains(text, "Rotate secret") {
		t.Errorf("revoking the subscription: %s", text)
	}
	shownOnce("credentials", "nodes", url.Values{"name": {"n"}, "region": {"eu"}})
	nodes, _, err := f.db.Nodes(t.Context(), store.Page{})
	if err != nil || len(nodes) != 1 {
		t.Fatal(nodes, err)
	}
	if _, text := b.post("nodes/"+nodes[0].ID+"/revoke", nil); !strings.Contains(text, "Node revoked") {
		t.Error("node not revoked")
	}
	shownOnce("a token", "tokens", url.Values{"name": {"Ben"}, "role": {"viewer"}})

	_, text = b.get("audit")
	for _, want := range []string{"key.create", "key.rotate", "key.revoke", "account.update", "account.create", "node.enrol", "node.revoke", "token.create", "webhook.rotate_secret", "webhook.revoke", "Kim of admin", "127.0.0.1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
	if strings.Contains(f.logs.String(), key) || strings.Contains(text, key) {
		t.Error("a key in the clear is in the log or the audit log")
	}
}

// TestSecretOfAFormThatIsFollowedByAnother: a secret is shown though another form ended before
// the page was loaded that shows it.
func TestSecretOfAFormThatIsFollowedByAnother(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	var made adminapi.MintedKey
	f.call("POST", "/accounts/"+f.account.ID+"/keys", map[string]any{"environment": "test", "scopes": []string{"read:agent"}}, &made)
	b.get("accounts/" + f.account.ID)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for range 2 {
		if resp, text := b.post("keys/"+made.Key.ID+"/rotate", url.Values{"account": {f.account.ID}, "grace_days": {"1"}}); resp.StatusCode != 303 {
			t.Fatalf("rotating: %d %s", resp.StatusCode, text)
		}
	}
	for range 2 {
		b.post("accounts/"+f.account.ID+"/keys", url.Values{"environment": {"test"}, "scope": {"read:agent"}})
	}
	_, text := b.get("accounts/" + f.account.ID)
	if shown := secretField.FindAllString(text, -1); len(shown) != 3 || !strings.Contains(text, "Not done") {
		t.Errorf("after a rotation, one that was refused and two new keys the page shows %d secrets: %s", len(shown), text)
	}
	for _, id := range []string{"secret", "secret2", "secret3"} {
		if !strings.Contains(text, `<pre id="`+id+`"`) || !strings.Contains(text, `data-copy="`+id+`"`) {
			t.Errorf("there is no button that copies %s", id)
		}
	}
}

// TestReleases rolls a release out and back by the page's forms.
func TestReleases(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	if _, text := b.get("releases"); !strings.Contains(text, "No release has been pushed yet") {
		t.Error("there is a release already")
	}
	f.startNode("eu-west", 10)
	release := f.rollOut("eu-west")
	_, text := b.get("releases")
	for _, want := range []string{"1.4.0", "rolling out", "Node of eu-west", "Stage 1 %", `value="eu-west"`, release.Digest} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if !strings.Contains(text, `<option value="`+release.ID+`" selected>1.4.0</option>`) {
		t.Error("the newest release is not proposed")
	}
	f.await("the live page comes with the rollout and a form", func() bool { return strings.Contains(b.live("releases/live"), "Roll back") })
	plan := url.Values{"release": {release.ID}, "stages": {"50 100"}, "pause": {"0"}, "canary": {"5"}, "region": {"eu-west"}}
	if _, text := b.post("rollouts", plan); !strings.Contains(text, "Not done") {
		t.Error("a second rollout is not refused in words")
	}
	if _, text := b.post("releases/"+release.ID+"/rollback", nil); !strings.Contains(text, "Rolling back") || !strings.Contains(text, "olled back by an operator.</p>") {
		t.Error("not rolled back")
	} else if strings.Contains(text, "notice bad") {
		t.Error("an operator's own rollback is shown as an alarm")
	} else if !strings.Contains(text, `<option value="" selected>choose one</option>`) {
		t.Error("a release that was rolled back is proposed, as there is no other")
	}
	newer, _, err := f.db.AddRelease(f.Context(), store.Release{Version: "1.5.0", Digest: "sha256:" + strings.Repeat("5f", 32)})
	if err != nil {
		t.Fatal(err)
	}
	_, text = b.get("releases")
	for _, want := range []string{`<option value="` + newer.ID + `" selected>1.5.0</option>`, `<option value="` + release.ID + `">1.4.0, rolled back</option>`, "1 × own modules", "0 of 1 node serves it"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	plan.Set("stages", "soon")
	if _, text := b.post("rollouts", plan); !strings.Contains(text, "stages are percentages") {
		t.Error("bad stages are not refused in words")
	}
	plan.Set("stages", "50 100")
	f.await("the nodes have gone back", func() bool {
		_, text := b.post("rollouts", plan)
		return strings.Contains(text, "Rollout of 1.4.0 begun")
	})
	_, viewer := f.token("viewer")
	if _, text := f.login(viewer).get("releases"); strings.Contains(text, "Roll back") || strings.Contains(text, "Roll a release out") {
		t.Error("a viewer is offered a rollout")
	}
}

// TestRefusedRollout: a form of a rollout that was refused comes back open and as it was sent,
// also for a release that is not on the page. With what the page proposes instead, mending one
// field would roll another release out to every node.
func TestRefusedRollout(t *testing.T) {
	f := newFixture(t)
	for _, region := range []string{"eu-west", "us-east"} {
		f.enrol("Node of "+region, region)
	}
	var releases []store.Release
	for n := range 51 { // a page has 50
		release, _, err := f.db.AddRelease(t.Context(), store.Release{Version: fmt.Sprintf("1.%d.0", n), Digest: fmt.Sprintf("sha256:%064x", n)})
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	b := f.login(f.Token())
	plan := url.Values{"stages": {"5 100"}, "pause": {"2m"}, "canary": {"3"}, "nodes": {"node_1, node_2"}, "region": {"eu-west"}}
	for name, release := range map[string]store.Release{releases[49].Version: releases[49], releases[0].ID: releases[0]} {
		plan.Set("release", release.ID)
		_, text := b.post("rollouts", plan)
		for _, want := range []string{
			"pause is a number", `<details class="card" open>`, `<option value="` + release.ID + `" selected>` + name + `</option>`,
			`name="stages" value="5 100"`, `name="pause" value="2m"`, `name="canary" value="3"`, `name="nodes" value="node_1, node_2"`,
			`value="eu-west" checked>`, `value="us-east">`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page after a refused rollout of %s lacks %s", release.Version, want)
			}
		}
		if strings.Count(text, " selected>") != 1 {
			t.Errorf("the page after a refused rollout of %s selects another release", release.Version)
		}
	}
	if _, text := b.get("releases"); !strings.Contains(text, `<option value="`+releases[50].ID+`" selected>`) || strings.Contains(text, `value="2m"`) {
		t.Error("a page that is loaded anew does not propose the newest release")
	}
}

// TestFormsOfOthers: a form without the session's token, or from another site,
// does nothing.
func TestFormsOfOthers(t *testing.T) {
	f := newFixture(t)
	b := f.login(f.Token())
	for _, csrf := range []string{"", strings.Repeat("0", 64)} {
		if resp, _ := b.post("accounts/"+f.account.ID+"/mode", url.Values{"mode": {"setup"}, "csrf": {csrf}}); resp.StatusCode != 403 {
			t.Errorf("csrf %q answered %d", csrf, resp.StatusCode)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", f.AdminURL()+"/console/accounts/"+f.account.ID+"/mode",
		strings.NewReader(url.Values{"mode": {"setup"}, "csrf": {b.csrf}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if resp, _ := b.do(req); resp.StatusCode != 403 {
		t.Errorf("from another site answered %d", resp.StatusCode)
	}
	if a, err := f.db.Account(t.Context(), f.account.ID); err != nil || a.Mode != store.ModeLive {
		t.Errorf("the account is %v, %v", a.Mode, err)
	}
}

func TestRolesInTheConsole(t *testing.T) {
	f := newFixture(t)
	id, viewer := f.token("viewer")
	b := f.login(viewer)
	_, text := b.get("accounts/" + f.account.ID)
	for _, never := range []string{"New key", "Set to setup", ">Tokens<"} {
		if strings.Contains(text, never) {
			t.Errorf("a viewer is offered %s", never)
		}
	}
	if _, text := b.post("accounts/"+f.account.ID+"/mode", url.Values{"mode": {"setup"}}); !strings.Contains(text, "needs the role operator") {
		t.Error("a viewer is not refused in words")
	}
	if resp, _ := b.get("tokens"); resp.StatusCode != 403 {
		t.Errorf("a viewer sees the tokens: %d", resp.StatusCode)
	}
	f.call("POST", "/tokens/"+id+"/revoke", nil, nil)
	if resp, _ := b.get("accounts"); resp.Request.URL.Path != "/console/login" {
		t.Errorf("with a revoked token: %s", resp.Request.URL)
	}
	if a, err := f.db.Account(t.Context(), f.account.ID); err != nil || a.Mode != store.ModeLive {
		t.Errorf("the account is %v, %v", a.Mode, err)
	}
}
