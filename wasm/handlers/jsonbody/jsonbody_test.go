package jsonbody

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

func TestValid(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, want := range map[string]bool{
		`{}`: true, ` { "a" : [ 1 , -0.5e+3 , true , false , null , "" ] } `: true, `0`: true, `-0`: true, `1E5`: true,
		`"\"\\\/\b\f\n\r\t\u00e9\uD83C\udfe1é🏡"`: true, `"\ue000"`: true, `"` + "\u007f" + `"`: true,
		nested(MaxDepth): true, `{"a":` + nested(MaxDepth-1) + `}`: true,

		nested(MaxDepth + 1): false, `{"a":` + nested(MaxDepth) + `}`: false, strings.Repeat("[", 60_000): false,
		``: false, ` `: false, `{`: false, `}`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1,}`: false, `{,}`: false, `{a:1}`: false,
		`[1,]`: false, `[,1]`: false, `[1 2]`: false, `[1}`: false, `{} {}`: false, `{}x`: false, "{}\x00": false, "\x00": false,
		`tru`: false, `True`: false, `nul`: false, `nulll`: false, `NaN`: false, `Infinity`: false, `undefined`: false,
		`01`: false, `-`: false, `+1`: false, `1.`: false, `.5`: false, `1e`: false, `1e+`: false, `0x1`: false, `--1`: false,
		`"`: false, `"\"`: false, `"\x41"`: false, `"\u12"`: false, `"\u12g4"`: false, `"\`: false, "\"\n\"": false, "\"\x1f\"": false,
		`'a'`: false, `"\u0000"`: false, `"\ud800"`: false, `"\ud800x"`: false, `"\ud800\n"`: false, `"\ud800\u0041"`: false,
		`"\udc00"`: false, `"\ud800\ud800"`: false, "\"\xff\"": false, "\"\xc0\x80\"": false, "\"\xed\xa0\x80\"": false,
		"\ufeff{}": false, "\u00a0{}": false, "{}\f": false, `{"\u0000":1}`: false,
	} {
		if got := Valid([]byte(text)); got != want {
			t.Errorf("%.40q: %t, want %t", text, got, want)
		}
	}
}

func TestIsFreeForm(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for text, want := range map[string]bool{
		`{}`: true, ` {"a" : [1, "\ud83c\udfe1 \\ud83d \\u0000"], "a":2} `: true, nested(64): true,
		`{"a":-1.7976931348623157e308,"b":9007199254740993,"c":1e-400,"d":0e999}`: true,

		``: false, ` `: false, `[]`: false, `"x"`: false, `7`: false, `null`: false, `{`: false, `{}{}`: false, nested(65): false,
		`{"a":"\ud83d"}`: false, `{"\udc00":1}`: false, `{"a":[{"b":"\u0000"}]}`: false, "{\"a\":\"\xff\"}": false,
		`{"a":1e400}`: false, `{"a":[-1e309]}`: false, `{"a":1` + strings.Repeat("0", 400) + `}`: false,
	} {
		if got := IsFreeForm([]byte(text)); got != want {
			t.Errorf("%.60q: %t, want %t", text, got, want)
		}
	}
}

func TestObject(t *testing.T) {
	for _, text := range []string{``, `[]`, `"x"`, `7`, `null`, `true`, `{`} {
		if _, ok := Object([]byte(text)); ok {
			t.Errorf("%q is an object", text)
		}
	}
	b := []byte(`{"a":"first","b":null,"a":"l\u0061st","c":"x","c":null,"d":{"a":1},"\u0065":"\ud83c\udfe1"}`)
	o, ok := Object(b)
	clear(b) // values share nothing with it
	if !ok {
		t.Fatal("no object")
	}
	for name, want := range map[string]string{"a": "last", "b": "", "c": "", "e": "🏡", "f": "", "A": ""} {
		if got, ok := Text(Member(o, name)); !ok || got != want {
			t.Errorf("%s: %q, %t, want %q", name, got, ok, want)
		}
	}
	if _, ok := Text(Member(o, "d")); ok {
		t.Error("an object is a text")
	}
}

// FuzzValid holds Valid against encoding/json, and what is let through against
// fastjson, which reads it afterwards.
func FuzzValid(f *testing.F) {
	for _, seed := range []string{
		`{"name":"Ana","consent":{"status":"none"}}`, `{"events":["a","b"],"x":[1,2.5e-3,true,null]}`, `{"a":"\ud83c\udfe1\u0000"}`,
		`[[[[]]]]`, `{"a":1,}`, "{\"a\":\"\xff\"}", ``, `"\`, `-`, `{"a":1}{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := Valid(b)
		if want := json.Valid(b) && utf8.Valid(b) && depth(b) <= MaxDepth && isText(b); got != want {
			t.Fatalf("%q: %t, want %t", b, got, want)
		}
		if !got {
			return
		}
		var p fastjson.Parser
		v, err := p.ParseBytes(b)
		if err != nil {
			t.Fatalf("%q: fastjson says %v", b, err)
		}
		if o, ok := Object(b); ok != (v.Type() == fastjson.TypeObject) {
			t.Fatalf("%q: an object: %t", b, ok)
		} else if ok {
			var theirs map[string]any
			if err := json.Unmarshal(b, &theirs); err != nil {
				t.Fatal(err)
			}
			for name, want := range theirs {
				s, isText := want.(string)
				if got, ok := Text(Member(o, name)); ok != (isText || want == nil) || got != s {
					t.Fatalf("%q: member %q is %q, %t, want %#v", b, name, got, ok, want)
				}
			}
		}
	})
}

// depth of a JSON text.
func depth(b []byte) (deepest int) {
	d := json.NewDecoder(bytes.NewReader(b))
	for now := 0; ; {
		token, err := d.Token()
		if err != nil {
			return deepest
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			now++
		case json.Delim('}'), json.Delim(']'):
			now--
		}
		deepest = max(deepest, now)
	}
}

// isText reports whether the strings of a JSON text are free of NUL and of halves
// of surrogate pairs, which encoding/json reads as U+FFFD: so a text in which
// each U+FFFD that is meant stands for itself shows none.
func isText(b []byte) bool {
	b = bytes.ReplaceAll(b, []byte("\ufffd"), []byte("x"))
	escaped := false
	for i := 0; i < len(b); i++ { // \ufffd, in any case, but not \\ufffd
		switch {
		case escaped:
			escaped = false
			if i+5 <= len(b) && strings.EqualFold(string(b[i:i+5]), "ufffd") && b[i] == 'u' {
				copy(b[i:], "u0041")
			}
		case b[i] == '\\':
			escaped = true
		}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	for {
		token, err := d.Token()
		if err != nil {
			return true
		}
		if s, ok := token.(string); ok && strings.ContainsAny(s, "\x00\ufffd") {
			return false
		}
	}
}
