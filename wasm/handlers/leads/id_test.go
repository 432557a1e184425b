package leads

import (
	"strings"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/typeid"
)

// TestLeadID compares the id in an answer with the one that the request's time and
// randomness make: ids sort by time, and the first ten random bytes are theirs.
func TestLeadID(t *testing.T) {
	const at = int64(1_750_000_000_123_456)
	req := &abi.Request{Now: at, Method: "POST", Body: []byte(`{"name":"Ana","email":"ana@example.com"}`),
		Principal: abi.Principal{AccountID: "acc_1", Environment: abi.EnvTest}}
	for i := range req.Random {
		req.Random[i] = byte(i + 1)
	}
	want := `{"lead":{"id":"` + typeid.Make("lead", at/1000, [10]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) + `",`
	var resp abi.Response
	Handle(req, &resp, nil) // a test key's lead is not kept
	if resp.Status != 201 || !strings.HasPrefix(string(resp.Body), want) {
		t.Errorf("%d %s, want %s", resp.Status, resp.Body, want)
	}
}

// TestInvisibleCharacters refuses domains with characters that nobody sees, at the
// ends of their ranges, and takes their neighbours.
func TestInvisibleCharacters(t *testing.T) {
	for c, want := range map[rune]bool{
		0x80: false, 0x9f: false, 0xa0: false, 0xa1: true, 0x2009: false, 0x200b: false, 0x206f: false, 0x2070: true,
		0xad: false, 0xae: true, 0x61c: false, 0x180e: false, 0x3163: true, 0x3164: false,
		0xfe00: false, 0xfe0f: false, 0xfe10: true, 0xe0020: false, 0xe01ef: false, 0xfefe: true, 0xfeff: false, 0xff00: true, 0xfffd: false, 0xe9: true, 'z': true, '{': false, '`': false, '_': false,
	} {
		if got := isDomain("a" + string(c) + "b.com"); got != want {
			t.Errorf("%U: %t, want %t", c, got, want)
		}
	}
}

// TestDomainsEndInLetters refuses domains whose last label is a number, and takes
// numbers elsewhere.
func TestDomainsEndInLetters(t *testing.T) {
	for domain, want := range map[string]bool{
		"example.0": false, "example.9": false, "example.0-9": false, "1.2": false, "0.com": true, "9.com": true, "example.0a": true, "example.a9": true,
	} {
		if got := isDomain(domain); got != want {
			t.Errorf("%s: %t, want %t", domain, got, want)
		}
	}
}
