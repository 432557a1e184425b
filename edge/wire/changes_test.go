package wire

import (
	"encoding/json"
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
		"letters": {{Seq: 1, Kind: "key", Ref: "süd"}}, "html": {{Seq: 1, Kind: "key", Ref: "<&>"}}, "not UTF-8": {{Seq: 1, Kind: "key", Ref: "a\xffb"}},
	} {
		for _, head := range []Head{{}, {Trace: "00-1"}, {Failure: Internal}} {
			for _, history := range []string{"", "his_1", `"`} {
				for _, m := range []Message{
					&Changed{Head: head, Changes: changes, Latest: 9, History: history},
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
					read := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
					if err := Decode(text, read); err != nil || !reflect.DeepEqual(read, ordinary) {
						t.Errorf("%s: %s is read as %+v, want %+v: %v", name, text, read, ordinary, err)
					}
				}
			}
		}
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
	f.Fuzz(func(t *testing.T, text string) {
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
