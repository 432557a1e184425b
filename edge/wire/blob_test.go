package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// TestBlobReply: what is written is what encoding/json writes, and is read without it.
func TestBlobReply(t *testing.T) {
	for _, size := range []int{0, 1, 2, 3, 1000} {
		m := BlobReply{Head: Head{V: Version}, Size: 1 << 40, Data: bytes.Repeat([]byte{0xfb, 0xff, 'a'}, size)[:size]}
		if size == 0 {
			m.Data = nil
		}
		text, err := Encode(&m)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := json.Marshal(&m); err != nil || !bytes.Equal(text, want) {
			t.Errorf("%d bytes are written as %s, want %s, %v", size, text, want, err)
		}
		var read BlobReply
		if !read.parseFast(string(text)) || !reflect.DeepEqual(read, m) {
			t.Errorf("%s is read as %+v", text, read)
		}
	}
}

// TestBlobReplyOfAnotherForm: what has another form is left to encoding/json, and what a
// reply before had is not in it.
func TestBlobReplyOfAnotherForm(t *testing.T) {
	for text, want := range map[string]BlobReply{
		`{"v":2,"size":3,"data":"Y\u0057Jj"}`:                   {Head: Head{V: 2}, Size: 3, Data: []byte("abc")},
		`{"v":2,"data":"YWJj","size":3}`:                        {Head: Head{V: 2}, Size: 3, Data: []byte("abc")},
		`{"v":2,"size":3,"data":"YWJj","later":1}`:              {Head: Head{V: 2}, Size: 3, Data: []byte("abc")},
		`{"v":2,"failure":"not_found","size":0}`:                {Head: Head{V: 2, Failure: NotFound}},
		`{"v":2,"trace":"00-1","size":3,"data":"YWJj"} ` + "\n": {Head: Head{V: 2, Trace: "00-1"}, Size: 3, Data: []byte("abc")},
	} {
		read := BlobReply{Size: 9, Data: []byte("before")}
		if err := Decode([]byte(text), &read); err != nil || !reflect.DeepEqual(read, want) {
			t.Errorf("%s is read as %+v, want %+v: %v", text, read, want, err)
		}
	}
	for _, text := range []string{
		`{"v":2,"size":3,"data":"YWJ"}`, `{"v":2,"size":3,"data":"YWJj}`, `{"v":2,"size":3,"data":"YW` + "\n" + `Jj"}`,
		`{"v":2,"size":3,"data":"YW` + "\r" + `Jj"}`, `{"v":2,"size":3,"data":"YWJj"`, `{"v":2,"size":03}`,
	} {
		if err := Decode([]byte(text), new(BlobReply)); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// FuzzBlobReply holds what is read of any text to what encoding/json reads of it.
func FuzzBlobReply(f *testing.F) {
	for _, text := range []string{
		`{"v":2,"size":3}`, `{"v":2,"size":3,"data":"YWJj"}`, `{"v":2,"size":3,"data":""}`, `{"v":2,"size":3,"data":"YWI="}`,
		`{"v":2,"size":3,"data":"YW` + "\n" + `Jj"}`, `{"v":2,"size":-1}`, `{"v":2,"size":3,"data":null}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var read, ordinary BlobReply
		if !read.parseFast(text) {
			return
		}
		if err := json.Unmarshal([]byte(text), &ordinary); err != nil || !reflect.DeepEqual(read, ordinary) {
			t.Errorf("%q is read as %+v, want %+v: %v", text, read, ordinary, err)
		}
	})
}
