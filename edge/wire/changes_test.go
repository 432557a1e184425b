package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"partneredge/store"
)

// TestChangesAreOrdinaryJSON holds both messages, however they are written, to what
// encoding/json writes and reads of them.
func TestChangesAreOrdinaryJSON(t *testing.T) {
	long := []store.Change{{Seq: 7, Kind: store.ChangeKey, Ref: "key_1", Gone: true}, {Seq: 8, Kind: store.ChangeFirings, Ref: "acc_1"}}
	for name, changes := range map[string][]store.Change{
		"none": nil, "two": long, "zero": {{}}, "negative": {{Seq: -1, Kind: "key", Ref: "k"}}, "largest": {{Seq: math.MaxInt64, Kind: "key", Ref: "k"}},
		"quote": {{Seq: 1, Kind: "key", Ref: `a"b`}}, "backslash": {{Seq: 1, Kind: "key", Ref: `a\b`}}, "control": {{Seq: 1, Kind: "key", Ref: "a\nb"}},
		"space": {{Seq: 1, Kind: "key", Ref: "a b"}}, "no ref": {{Seq: 1, Kind: "key"}}, "gap": {{Seq: 1, Kind: "key", Ref: "a"}, {Seq: 3, Kind: "key", Ref: "b"}},
		"other kind": {{Seq: 1, Kind: "kind", Ref: "a"}}, "capital": {{Seq: 1, Kind: "Key", Ref: "a"}},
		"letters": {{Seq: 1, Kind: "key", Ref: "süd"}}, "html": {{Seq: 1, Kind: "key", Ref: "<&>"}}, "not UTF-8": {{Seq: 1, Kind: "key", Ref: "a\xffb"}},
	} {
		for _, head := range []Head{{}, {Trace: "00-1"}, {Failure: Internal}} {
			for _, history := range []string{"", "his_1", `"`} {
				for _, m := range []Message{
					&Changed{Head: head, Changes: changes, Latest: 9, History: history},
					&Changed{Head: head, Changes: changes, Latest: 9, History: history, Short: true},
					&ChangesReply{Head: head, Changes: changes, Latest: 9, History: history},
					&ChangesReply{Head: head, Changes: changes, Latest: 9, History: history, Reset: true},
				} {
					text, err := Encode(m)
					if err != nil {
						t.Fatal(err)
					}
					ordinary := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
					if err := json.Unmarshal(text, ordinary); err != nil {
						t.Fatalf("%s: %s: %v", name, text, err)
					}
					if c, ok := ordinary.(*Changed); ok {
						c.expand()
					}
					read := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
					if err := Decode(text, read); err != nil || !reflect.DeepEqual(read, ordinary) {
						t.Errorf("%s: %s is read as %+v, want %+v: %v", name, text, read, ordinary, err)
					}
				}
			}
		}
	}
}

// TestShortChanges writes what is pushed in short form and reads it, in whatever order its
// fields come. A node that predates that form finds a message without changes.
func TestShortChanges(t *testing.T) {
	m := Changed{Latest: 9, History: "his_1", Short: true, Changes: []store.Change{
		{Seq: 7, Kind: store.ChangeKey, Ref: "key_1", Gone: true}, {Seq: 8, Kind: store.ChangeKey, Ref: "key_2"},
		{Seq: 9, Kind: store.ChangeFirings, Ref: "acc_1"}, {Seq: 10, Kind: store.ChangeInsights, Ref: "acc_1"}, {Seq: 11, Kind: store.ChangeProfile, Ref: "acc_2", Gone: true},
	}}
	text, err := Encode(&m)
	want := fmt.Sprintf(`{"v":%d,"first":7,"refs":"Kkey_1 kkey_2 facc_1 iacc_1 Pacc_2","latest":9,"history":"his_1"}`, Version)
	if err != nil || string(text) != want {
		t.Fatalf("%s, want %s: %v", text, want, err)
	}
	m.Short = false
	for _, text := range []string{want, fmt.Sprintf(`{"refs":"Kkey_1 kkey_2 facc_1 iacc_1 Pacc_2","latest":9,"first":7,"v":%d,"history":"his_1"}`, Version)} {
		read := Changed{Changes: make([]store.Change, 3)} // used before
		if err := Decode([]byte(text), &read); err != nil || !reflect.DeepEqual(read, m) {
			t.Errorf("%s is read as %+v, want %+v: %v", text, read, m, err)
		}
	}
	for _, refs := range []string{"", "kkey_1 ", "kkey_1  kkey_2", " kkey_1", "k", "xkey_1"} {
		if err := Decode(fmt.Appendf(nil, `{"v":%d,"first":7,"refs":%q,"latest":9}`, Version, refs), new(Changed)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q is read: %v", refs, err)
		}
	}
	var before struct {
		Changes []store.Change `json:"changes"`
		Latest  int64          `json:"latest"`
	}
	if err := json.Unmarshal([]byte(want), &before); err != nil || before.Changes != nil || before.Latest != 9 {
		t.Errorf("before the short form it is read as %+v: %v", before, err)
	}
}

// TestPlainUntil puts each byte at each place of a text, beside others that are special or
// nearly so.
func TestPlainUntil(t *testing.T) {
	for c := range 256 {
		for _, beside := range []string{"a", " ", "~", "!", "#", "[", "]", "\x00", "\xff", "\x7f", `"`, `\`} {
			for at := range 20 {
				text := strings.Repeat("k", at) + string([]byte{byte(c)}) + strings.Repeat(beside, 20-at)
				want := 0
				for want < len(text) && !special[text[want]] {
					want++
				}
				if got := plainUntil(text); got != want {
					t.Fatalf("%q is plain up to %d, want %d", text, got, want)
				}
			}
		}
	}
}

// FuzzChanges holds what is read of any text to what encoding/json reads of it.
func FuzzChanges(f *testing.F) {
	for _, text := range []string{
		`{"v":2,"latest":3}`, `{"v":2,"changes":[{"seq":1,"kind":"key","ref":"k","gone":true},{"seq":2,"kind":"profile","ref":"a"}],"latest":3,"history":"h","reset":true}`,
		`{"v":2,"changes":[],"latest":3}`, `{"latest":3,"v":2}`, `{"v":02,"latest":3}`, `{"v":2,"latest":3,"history":"\u0041"}`, `{"v":9,"latest":3}`,
	} {
		f.Add(text)
	}
	for _, text := range []string{
		`{"v":2,"first":7,"refs":"kkey_1 Facc_1","latest":8,"history":"h"}`, `{"v":2,"first":0,"refs":"ka","latest":8}`, `{"v":2,"first":1,"refs":"ka ","latest":8}`,
		`{"v":2,"first":1,"refs":"","latest":8}`, `{"v":2,"first":1,"refs":"xa","latest":8}`, `{"v":2,"refs":"ka","first":1,"latest":8}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var pushed Changed
		if pushed.parseFast(text) {
			var ordinary Changed
			if err := json.Unmarshal([]byte(text), &ordinary); err != nil || !ordinary.expand() || !reflect.DeepEqual(pushed, ordinary) {
				t.Fatalf("%q is read as %+v, want %+v: %v", text, pushed, ordinary, err)
			}
		}
		var s ChangesReply
		if !s.parseFast(text) {
			return
		}
		var ordinary ChangesReply
		if err := json.Unmarshal([]byte(text), &ordinary); err != nil {
			t.Fatalf("%q is read, and is no JSON: %v", text, err)
		}
		if !reflect.DeepEqual(s, ordinary) {
			t.Errorf("%q is read as %+v, want %+v", text, s, ordinary)
		}
	})
}

// BenchmarkDecodeChanges reads a push of a thousand changes.
func BenchmarkDecodeChanges(b *testing.B) {
	m := &Changed{Latest: 1000, History: "his_01kanq7vd4e1v9k3g5s7x9z2bc"}
	for i := range 1000 {
		m.Changes = append(m.Changes, store.Change{Seq: int64(i), Kind: store.ChangeKey, Ref: "key_" + strings.Repeat("0", 26)})
	}
	text, err := Encode(m)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := Decode(text, new(Changed)); err != nil {
			b.Fatal(err)
		}
	}
}
