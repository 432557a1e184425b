package pattern

import (
	"errors"
	"strings"
	"testing"
)

// TestMatch checks that cases notice differences.
func TestMatch(t *testing.T) {
	fill := func(text string) string { return strings.ReplaceAll(text, "$(x)", "seven") }
	for _, tt := range []struct{ want, got, problem string }{
		{`{"a":1}`, `{"a":1}`, ""},
		{`{"a":1}`, `{"a":1,"b":null}`, ".b is <nil>, want none"},
		{`{"a":1,"b":null}`, `{"a":1}`, ".b is not there"},
		{`{"a":1}`, `{"a":1.0}`, ".a is 1.0, want 1"},
		{`{"a":1}`, `{"a":"1"}`, ".a is 1, want 1"},
		{`{"a":null}`, `{"a":""}`, ".a is , want <nil>"},
		{`{"a":"1"}`, `{"a":1}`, `.a is "1", want "1"`},
		{`{"a":true}`, `{"a":"true"}`, ".a is true"},
		{`{"a":{}}`, `{"a":[]}`, "want an object"},
		{`{"a":[1,2]}`, `{"a":[2,1]}`, ".a[0] is 2"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "want a list of 1"},
		{`["$(x)"]`, `["seven"]`, ""},
		{`["$(x)"]`, `["$(x)"]`, "want \"seven\""},
		{`["<any>"]`, `[{"a":1}]`, ""},
		{`["<string>"]`, `[""]`, "want <string>"},
		{`["<string>"]`, `[7]`, "want <string>"},
		{`["<time>"]`, `["2025-01-01T00:00:00.5Z"]`, ""},
		{`["<time>"]`, `["2025-01-01T00:00:00+02:00"]`, "want <time>"},
		{`["<time>"]`, `["2025-01-01"]`, "want <time>"},
		{`["<at:2025-01-01T00:00:00Z>"]`, `["2025-01-01T00:00:00.000000Z"]`, ""},
		{`["<at:2025-01-01T00:00:00Z>"]`, `["2025-01-01T00:00:00.000001Z"]`, "want <at"},
		{`["<id:whs>"]`, `["whs_01h455vb4pex5vsknk084sn02q"]`, ""},
		{`["<id:whs>"]`, `["evt_01h455vb4pex5vsknk084sn02q"]`, "want <id"},
		{`["<id:whs>"]`, `["whs_1"]`, "want <id"},
		{`["<hex64>"]`, `["` + strings.Repeat("0f", 32) + `"]`, ""},
		{`["<hex64>"]`, `["` + strings.Repeat("0F", 32) + `"]`, "want <hex64>"},
		{`["<int:1..3>"]`, `[3]`, ""},
		{`["<int:1..3>"]`, `[4]`, "want <int"},
		{`["<int:1..3>"]`, `[1.5]`, "want <int"},
		{`["<has:t=<unix>>"]`, `["a t=<unix> b"]`, ""},
		{`["<has:x>"]`, `["y"]`, "want <has"},
		{`["<nonsense>"]`, `["y"]`, "want <nonsense>"},
	} {
		var want, got any
		if err := Decode([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if err := Decode([]byte(tt.got), &got); err != nil {
			t.Fatal(err)
		}
		m := Matcher{Fill: fill, Captured: map[string]string{}}
		problems := strings.Join(m.Value("", want, got), "; ")
		if (problems == "") != (tt.problem == "") || !strings.Contains(problems, tt.problem) {
			t.Errorf("%s against %s: %q, want %q", tt.got, tt.want, problems, tt.problem)
		}
	}
	m := Matcher{Fill: fill, Captured: map[string]string{}}
	if p := m.Text("", "<name=id:whs>", "whs_01h455vb4pex5vsknk084sn02q"); p != "" || m.Captured["name"] == "" {
		t.Errorf("%s, captured %v", p, m.Captured)
	}
	for _, tt := range []struct{ want, got, captured, problem string }{
		{`"<name=int:1..9>"`, `7`, "7", ""},
		{`"<name=any>"`, `1.50`, "1.50", ""},
		{`"<name=any>"`, `1e400`, "1e400", ""},
		{`"<name=any>"`, `""`, "", ""},
		{`"<name=any>"`, `"1"`, "1", ""},
		{`"<name=any>"`, `{"a":1}`, "none", "only a text or a number can be captured, as <name=any> wants"},
		{`"<name=any>"`, `[]`, "none", "only a text or a number"},
		{`"<name=any>"`, `true`, "none", "only a text or a number"},
		{`"<name=any>"`, `null`, "none", "only a text or a number"},
		{`"<name=int:1..9>"`, `10`, "none", "want <name=int"},
	} {
		var want, got any
		if err := errors.Join(Decode([]byte(tt.want), &want), Decode([]byte(tt.got), &got)); err != nil {
			t.Fatal(err)
		}
		m := Matcher{Fill: fill, Captured: map[string]string{"name": "none"}}
		problems := strings.Join(m.Value("", want, got), "; ")
		if m.Captured["name"] != tt.captured || (problems == "") != (tt.problem == "") || !strings.Contains(problems, tt.problem) {
			t.Errorf("%s against %s: captured %q, %q; want %q, %q", tt.got, tt.want, m.Captured["name"], problems, tt.captured, tt.problem)
		}
	}
	for _, text := range []string{`{"a":1} {}`, `{"a":1}x`, `{`, ``} {
		var v any
		if Decode([]byte(text), &v) == nil {
			t.Errorf("%q was parsed", text)
		}
	}
}
