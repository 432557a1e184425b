package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEncode(t *testing.T) {
	reply := SubscribeReply{Head: Head{V: 9, Failure: Limit, Trace: "00-1"}, Reason: "<&>"}
	text, err := Encode(&reply)
	want := fmt.Sprintf(`{"v":%d,"failure":"limit","trace":"00-1","reason":"<&>"}`, Version)
	if err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	var again SubscribeReply
	if err := Decode(text, &again); err != nil || again != reply {
		t.Errorf("decoded to %+v, %v, want %+v", again, err, reply)
	}
}

func TestDecodeErrors(t *testing.T) {
	for text, want := range map[string]string{
		fmt.Sprintf(`{"v":%d,"reason":"own"}`, Version):   "",
		fmt.Sprintf(`{"v":%d,"other":1}`, Version+1):      "",
		fmt.Sprintf(`{"v":%d,"reason":"far"}`, Version+2): fmt.Sprintf("version %d, too far from this program's %d", Version+2, Version),
		fmt.Sprintf(`{"v":%d,"reason":[1]}`, Version+2):   fmt.Sprintf("version %d, too far from this program's %d", Version+2, Version),
		`{"v":-1}`: fmt.Sprintf("version -1, too far from this program's %d", Version),
		fmt.Sprintf(`{"v":%d,"reason":[1]}`, Version): "wrong type of reason",
		`{"v":"secret"}`:          "wrong type of Head.v",
		`{"v":1,"reason":"secret`: "no valid JSON",
		`{"reason":"secret"}`:     "no version",
		``:                        "no valid JSON",
	} {
		err := Decode([]byte(text), new(SubscribeReply))
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
		var version VersionError
		if errors.As(err, &version) == errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v is not exactly one of the two kinds", text, err)
		}
	}
}
