package route

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"partneredge/wasm/abi"
	"partneredge/wasm/percent"
)

// found is the result of a lookup in a table: the handler and the values of its parameters.
func found(t *Table, method, path string) (handler string, params []abi.Param, allow string) {
	e, params := t.Find(path, nil)
	if e == nil {
		return "", nil, ""
	}
	r := e.Method(method, params)
	if r == nil {
		return "", nil, e.Allow
	}
	return r.Handler, params, e.Allow
}

func TestFindContract(t *testing.T) {
	table := ContractTable()
	for _, tt := range []struct{ method, path, handler, param string }{
		{"GET", "/api/v2/public/agents/me", "agents", ""},
		{"GET", "/api/v2/public/coaching/insights", "coaching", ""},
		{"GET", "/api/v2/public/sentinels/firings", "sentinels", ""},
		{"POST", "/api/v2/public/leads", "leads", ""},
		{"POST", "/api/v2/public/webhooks/subscribe", "webhooks", ""},
		{"DELETE", "/api/v2/public/webhooks", "webhooks", ""},
		{"DELETE", "/api/v2/public/webhooks/", "webhooks", ""},
		{"DELETE", "/api/v2/public/webhooks/whs_1", "webhooks", "whs_1"},
		{"DELETE", "/api/v2/public/webhooks/a%2fb%20", "webhooks", "a/b "},
		{"DELETE", "/api/v2/public/webhooks/a/b", "", ""},
		{"DELETE", "/api/v2/public/webhooks/a%2", "", ""},
		{"DELETE", "/api/v2/public/webhooks/a%zz", "", ""},
		{"DELETE", "/api/v2/public/webhooks/a/", "", ""},
		{"DELETE", "/api/v2/public/webhooks//", "", ""},
		{"DELETE", "/api/v2/public/webhooks//whs_1", "", ""},
		{"POST", "/api/v2/public//leads", "", ""},
		{"POST", "//api/v2/public/leads", "", ""},
		{"GET", "/api/v2/public/agents/me/", "", ""},
		{"GET", "/api/v2/public/agents%2Fme", "", ""},
		{"GET", "/api/v2/public/agents/m%65", "", ""},
		{"GET", "/api/v2/public", "", ""},
		{"GET", "/api/v2/public/", "", ""},
		{"GET", "", "", ""},
		{"POST", "/api/v3/public/leads", "", ""},
	} {
		handler, params, _ := found(table, tt.method, tt.path)
		param := ""
		if len(params) > 0 {
			param = params[0].Value
		}
		if handler != tt.handler || param != tt.param {
			t.Errorf("%s %s: %q with %v, want %q with %q", tt.method, tt.path, handler, params, tt.handler, tt.param)
		}
	}
}

func own(method, path string) abi.Route {
	return abi.Route{Handler: "quotes", Method: method, Path: path, Scope: "x:quotes"}
}

// TestFindNarrowest checks which of several paths counts, and what a parameter is
// called.
func TestFindNarrowest(t *testing.T) {
	routes := []abi.Route{
		own("GET", "/api/v2/public/q/{id}"), own("PUT", "/api/v2/public/q/{quote}"), own("POST", "/api/v2/public/q/today"),
		own("GET", "/api/v2/public/q/today/{a}/x"), own("GET", "/api/v2/public/q/{b}/{c}/y"), own("GET", "/api/v2/public/q/{id}/"),
	}
	if err := Check(routes); err != nil {
		t.Fatal(err)
	}
	table, err := New(routes)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ method, path, params, allow string }{
		{"GET", "q/1", "id=1", "GET, PUT"},
		{"PUT", "q/1", "quote=1", "GET, PUT"},
		{"POST", "q/1", "405", "GET, PUT"},
		{"POST", "q/today", "", "POST"},
		{"GET", "q/today", "405", "POST"},
		{"GET", "q/today/1/x", "a=1", "GET"},
		{"GET", "q/today/1/y", "b=today c=1", "GET"},
		{"GET", "q/1/", "id=1", "GET"},
		{"GET", "q/{id}", "id={id}", "GET, PUT"},
		{"GET", "q/1/1/z", "404", ""},
		{"GET", "q/1//y", "404", ""},
	} {
		handler, params, allow := found(table, tt.method, Prefix+tt.path)
		got := ""
		for _, p := range params {
			got = strings.TrimSpace(got + " " + p.Name + "=" + p.Value)
		}
		switch {
		case handler == "" && allow != "":
			got = "405"
		case handler == "":
			got = "404"
		}
		if got != tt.params || allow != tt.allow {
			t.Errorf("%s %s: %q and %q, want %q and %q", tt.method, tt.path, got, allow, tt.params, tt.allow)
		}
	}
}

func TestAllows(t *testing.T) {
	mine := Found{Route: own("GET", "/api/v2/public/q")}
	theirs := Found{Route: abi.Route{Scope: "read:agent"}, bit: abi.ReadAgent}
	for _, tt := range []struct {
		scopes abi.Scopes
		own    string
		mine   bool
		theirs bool
	}{
		{0, "", false, false},
		{^abi.Scopes(0), "", false, true},
		{0, "x:quotes", true, false},
		{0, "x:a x:quotes x:b", true, false},
		{0, "x:quotes2 x:quote", false, false},
		{0, "read:agent", false, false},
		{abi.ReadCoaching, "x:quotes", true, false},
	} {
		if mine.Allows(tt.scopes, tt.own) != tt.mine || theirs.Allows(tt.scopes, tt.own) != tt.theirs {
			t.Errorf("scopes %b and %q: %t and %t", tt.scopes, tt.own, !tt.mine, !tt.theirs)
		}
	}
}

func TestCheck(t *testing.T) {
	longest := Prefix + strings.Repeat("a", MaxPath-len(Prefix))
	for _, tt := range []struct {
		name   string
		routes []abi.Route
		why    string // "" if they are accepted
	}{
		{"nothing", nil, ""},
		{"the contract", Contract(), ""},
		{"the contract's, by another module", []abi.Route{{Handler: "mine", Method: "GET", Path: Prefix + "agents/me", Scope: "read:agent"}}, ""},
		{"beside the contract's", append(Contract(), own("GET", Prefix+"q/{id}"), own("POST", Prefix+"q/{name}")), ""},
		{"wider than the contract's", append(Contract(), own("GET", Prefix+"{a}/{b}")), ""},
		{"the longest path", []abi.Route{own("GET", longest)}, ""},
		{"a longer path", []abi.Route{own("GET", longest+"a")}, "more than 256"},
		{"outside", []abi.Route{own("GET", "/admin/v1/keys")}, "does not begin with /api/v2/public/"},
		{"above", []abi.Route{own("GET", "/api/v2/public")}, "does not begin with"},
		{"the prefix", []abi.Route{own("GET", Prefix)}, "itself"},
		{"a way out", []abi.Route{own("GET", Prefix+"../admin")}, "the segment .."},
		{"an empty segment", []abi.Route{own("GET", Prefix+"q//r")}, "empty segment"},
		{"two slashes at the end", []abi.Route{own("GET", Prefix+"q//")}, "empty segment"},
		{"a query", []abi.Route{own("GET", Prefix+"q?x=1")}, "other than a letter"},
		{"percent", []abi.Route{own("GET", Prefix+"q%20")}, "other than a letter"},
		{"a space", []abi.Route{own("GET", Prefix+"a b")}, "other than a letter"},
		{"a brace", []abi.Route{own("GET", Prefix+"q{id}")}, "other than a letter"},
		{"an open brace", []abi.Route{own("GET", Prefix+"{id")}, "other than a letter"},
		{"no name", []abi.Route{own("GET", Prefix+"{}")}, "is no parameter"},
		{"a name of capitals", []abi.Route{own("GET", Prefix+"q/{ID}")}, "is no parameter"},
		{"a wildcard", []abi.Route{own("GET", Prefix+"q/{rest...}")}, "is no parameter"},
		{"a name twice", []abi.Route{own("GET", Prefix+"q/{id}/{id}")}, "twice"},
		{"nine parameters", []abi.Route{own("GET", Prefix+"{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}")}, "more than 8 parameters"},
		{"thirteen segments", []abi.Route{own("GET", Prefix+"q"+strings.Repeat("/q", 12))}, "more than 12 segments"},
		{"no method", []abi.Route{own("", Prefix+"q")}, "the method is none of"},
		{"a small method", []abi.Route{own("get", Prefix+"q")}, "the method is none of"},
		{"HEAD", []abi.Route{own("HEAD", Prefix+"q")}, "the method is none of"},
		{"no scope", []abi.Route{{Method: "GET", Path: Prefix + "q"}}, "no key can have the scope"},
		{"an unknown scope", []abi.Route{{Method: "GET", Path: Prefix + "q", Scope: "read:quotes"}}, "no key can have the scope"},
		{"an own scope in capitals", []abi.Route{{Method: "GET", Path: Prefix + "q", Scope: "x:Quotes"}}, "no key can have the scope"},
		{"the same twice", []abi.Route{own("GET", Prefix+"q"), own("GET", Prefix+"q")}, "of module quotes already"},
		{"the same but for a name", []abi.Route{own("GET", Prefix+"q/{a}"), own("GET", Prefix+"q/{b}")}, "of module quotes already"},
		{"ambiguous", []abi.Route{own("GET", Prefix+"q/{a}/r"), own("POST", Prefix+"q/p/{b}")}, "neither is the narrower"},
		{"another method of the contract's", []abi.Route{own("POST", Prefix+"agents/me")}, "shadow GET /api/v2/public/agents/me"},
		{"the contract's under another name", []abi.Route{own("GET", Prefix+"webhooks/{name}")}, "shadow DELETE"},
		{"narrower than the contract's", []abi.Route{own("GET", Prefix+"webhooks/export")}, "shadow DELETE /api/v2/public/webhooks/{id}"},
		{"the contract's, open to others", []abi.Route{{Method: "GET", Path: Prefix + "agents/me", Scope: "x:mine"}}, "requires the scope read:agent"},
		{"the document", []abi.Route{own("GET", Prefix+"openapi.json")}, "the node itself"},
	} {
		err := Check(tt.routes)
		switch {
		case tt.why == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.why != "" && (err == nil || !strings.Contains(err.Error(), tt.why)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.why)
		}
	}
	many := make([]abi.Route, MaxRoutes+1)
	for i := range many {
		many[i] = own("GET", Prefix+"q"+strings.Repeat("a", i%50)+strings.Repeat("b", i/50))
	}
	if err := Check(many); err == nil || !strings.Contains(err.Error(), "1001 routes") {
		t.Errorf("too many routes: %v", err)
	}
}

func TestOf(t *testing.T) {
	table := []abi.Capability{abi.RouteTable}
	gate := Module{Name: Gate, Capabilities: table}
	quotes := Module{Name: "quotes", Routes: []abi.Route{{Method: "GET", Path: Prefix + "quotes", Scope: "x:quotes"}}}
	for _, tt := range []struct {
		name    string
		modules []Module
		count   int
		why     string
	}{
		{"modules older than routes", []Module{{Name: Gate}, {Name: "agents"}, {Name: "webhooks"}, {Name: "mine"}}, 5, ""},
		{"a gate newer than its handlers", []Module{gate, {Name: "agents"}}, 1, ""},
		{"a handler that judges keys", []Module{{Name: Gate, Capabilities: table}, {Name: "quotes", Capabilities: []abi.Capability{abi.Views, abi.Buckets}}}, 0,
			"module quotes is granted the capability buckets, which is gate's alone"},
		{"a gate older than its handlers", []Module{{Name: Gate}, quotes}, 0, "gate is not granted the capability routes"},
		{"a contract's module without routes", []Module{gate, {Name: "agents", Routes: []abi.Route{}}}, 0, ""},
		{"both", []Module{gate, {Name: "agents"}, quotes}, 2, ""},
		{"a route of the gate", []Module{{Name: Gate, Capabilities: table, Routes: quotes.Routes}}, 0, "gate declares routes"},
		{"a table for another", []Module{gate, {Name: "mine", Capabilities: table}}, 0, "gate's alone"},
		{"two modules for one route", []Module{gate, quotes, {Name: "mine", Routes: quotes.Routes}}, 0, "route \"GET\" \"/api/v2/public/quotes\" of module mine: it is a route of module quotes already"},
	} {
		routes, err := Of(tt.modules)
		switch {
		case tt.why == "" && (err != nil || len(routes) != tt.count):
			t.Errorf("%s: %v and %v, want %d routes", tt.name, routes, err, tt.count)
		case tt.why != "" && (err == nil || !strings.Contains(err.Error(), tt.why)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.why)
		}
	}
}

// anyRoutes draws routes of few segments, so that their paths overlap often.
func anyRoutes(t *rapid.T) []abi.Route {
	segment := rapid.SampledFrom([]string{"a", "b", "c", "{x}", "{y}", "{z}"})
	path := rapid.Custom(func(t *rapid.T) string {
		return Prefix + strings.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "segments"), "/") + rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "end")
	})
	var routes []abi.Route
	for range rapid.IntRange(1, 12).Draw(t, "count") {
		r := own(rapid.SampledFrom([]string{"GET", "PUT"}).Draw(t, "method"), path.Draw(t, "path"))
		r.Handler = "h" + string(rune('a'+len(routes)))
		if Check(append(routes, r)) == nil {
			routes = append(routes, r)
		}
	}
	return routes
}

// naive returns the patterns that match a path, by the words of the package's
// documentation.
func naive(routes []abi.Route, path string) (best []abi.Route, params []string) {
	literals := -1
	for _, r := range routes {
		want, sent := strings.Split(r.Path, "/"), strings.Split(path, "/")
		if len(want) != len(sent) {
			continue
		}
		count, values, ok := 0, []string{}, true
		for i := range want {
			value, valid := percent.Decode(sent[i])
			switch {
			case strings.HasPrefix(want[i], "{"):
				ok = ok && valid && sent[i] != ""
				values = append(values, value)
			default:
				ok = ok && want[i] == sent[i]
				count++
			}
		}
		switch {
		case !ok || count < literals:
		case count > literals:
			best, params, literals = []abi.Route{r}, values, count
		default:
			best = append(best, r)
		}
	}
	return best, params
}

// TestTableAgreesWithNaive: of unambiguous patterns that match a path, the one with
// most literals is the narrowest.
func TestTableAgreesWithNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := anyRoutes(t)
		table, err := New(routes)
		if err != nil {
			t.Fatal(err)
		}
		segment := rapid.SampledFrom([]string{"a", "b", "c", "d", "", "%61", "%2F", "%", "x%zz"})
		path := Prefix + strings.Join(rapid.SliceOfN(segment, 0, 5).Draw(t, "path"), "/")
		want, values := naive(routes, path)
		e, params := table.Find(path, nil)
		if (e == nil) != (len(want) == 0) {
			t.Fatalf("%s: found %v, want %v", path, e, want)
		}
		if e == nil {
			return
		}
		for _, method := range []string{"GET", "PUT", "POST"} {
			r, handler := e.Method(method, params), ""
			for _, w := range want {
				if w.Method == method {
					handler = w.Handler
				}
			}
			switch {
			case r == nil && handler != "", r != nil && r.Handler != handler:
				t.Fatalf("%s %s: found %v, want module %s", method, path, r, handler)
			case strings.Contains(e.Allow, method) != (handler != ""):
				t.Fatalf("%s allows %s", path, e.Allow)
			}
		}
		if len(params) != len(values) {
			t.Fatalf("%s: parameters %v, want %v", path, params, values)
		}
		for i := range params {
			if params[i].Value != values[i] {
				t.Fatalf("%s: parameters %v, want %v", path, params, values)
			}
		}
	})
}

// TestCompareIsByPaths checks that what compare says of two patterns is true of paths.
func TestCompareIsByPaths(t *testing.T) {
	matches := func(p pattern, path []string) bool {
		for i, segment := range p.segments {
			if len(path) != len(p.segments) || segment != "" && segment != path[i] {
				return false
			}
		}
		return true
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "n")
		draw := func(name string) pattern {
			return pattern{segments: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", ""}), n, n).Draw(t, name)}
		}
		a, b := draw("a"), draw("b")
		var both, onlyA, onlyB bool
		for i := range 27 {
			path := []string{"abz"[i%3:][:1], "abz"[i/3%3:][:1], "abz"[i/9:][:1]}[:n]
			inA, inB := matches(a, path), matches(b, path)
			both, onlyA, onlyB = both || inA && inB, onlyA || inA && !inB, onlyB || inB && !inA
		}
		want := ambiguous
		switch {
		case !both:
			want = disjoint
		case !onlyA && !onlyB:
			want = equal
		case !onlyA:
			want = narrower
		case !onlyB:
			want = wider
		}
		if got := compare(a, b); got != want {
			t.Fatalf("compare(%q, %q) = %d, want %d", a.segments, b.segments, got, want)
		}
	})
}

// FuzzCheck checks that a route which is accepted makes a table, in which it is found.
func FuzzCheck(f *testing.F) {
	for _, path := range []string{"q", "q/", "q/{id}", "{a}/{b}", "webhooks/{id}", "%41", "{", "}", "{}", "//", "a/../b", "{id}x"} {
		f.Add("GET", Prefix+path, "x:quotes")
	}
	f.Add("DELETE", Prefix+"webhooks", "write:webhooks")
	f.Fuzz(func(t *testing.T, method, path, scope string) {
		r := abi.Route{Handler: "fuzz", Method: method, Path: path, Scope: scope}
		if Check([]abi.Route{r}) != nil {
			return
		}
		table, err := New([]abi.Route{r})
		if err != nil {
			t.Fatalf("%+v is accepted, and makes no table: %v", r, err)
		}
		sent := strings.NewReplacer("{", "", "}", "").Replace(path)
		handler, params, allow := found(table, method, sent)
		if handler != "fuzz" || allow != method || len(params) != strings.Count(path, "{") {
			t.Fatalf("%+v: %s is not found", r, sent)
		}
	})
}

// FuzzFind checks that any path finds what a naive search finds.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{"/api/v2/public/webhooks/%41", "/api/v2/public/webhooks/%", "/", "/api/v2/public/webhooks//", "/api/v2/public/agents/me"} {
		f.Add(seed)
	}
	routes := Contract()
	table := ContractTable()
	f.Fuzz(func(t *testing.T, path string) {
		want, values := naive(routes, path)
		e, params := table.Find(path, nil)
		if (e == nil) != (len(want) == 0) || len(params) != len(values) {
			t.Errorf("%q finds %v, want %v", path, e, want)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	routes := Contract()
	for i := range 492 {
		routes = append(routes, own("GET", Prefix+"q"+strings.Repeat("a", i%20)+"/r"+strings.Repeat("b", i/20)))
	}
	for name, list := range map[string][]abi.Route{"8": Contract(), "500": routes} {
		table, err := New(list)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if e, _ := table.Find("/api/v2/public/agents/me", nil); e == nil {
					b.Fatal("not found")
				}
			}
		})
	}
}
