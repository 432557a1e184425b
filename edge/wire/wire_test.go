package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestUnderstood(t *testing.T) {
	for v, want := range map[int]bool{
		-1: false, 0: false, Version - 1: true, Version: true, Version + 1: true, Version + 2: false,
	} {
		if got := understood(v); got != want {
			t.Errorf("understood(%d) = %v, want %v", v, got, want)
		}
	}
}

func TestEveryMessageHasAHead(t *testing.T) {
	for _, m := range []Message{
		&KeyRequest{}, &KeyReply{}, &ViewRequest{}, &ViewReply{}, &ChangesRequest{}, &ChangesReply{}, &Changed{},
		&LeadsRequest{}, &LeadsReply{}, &SubscribeRequest{}, &SubscribeReply{}, &RevokeRequest{}, &RevokeReply{},
		&BlobRequest{}, &BlobReply{}, &SignaturesRequest{}, &SignaturesReply{}, &Spend{}, &Share{}, &Status{}, &Order{},
		&LockoutsRequest{}, &LockoutsReply{},
	} {
		m.Header().V, m.Header().Failure = Version, Internal
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), fmt.Sprintf(`{"v":%d,"failure":"internal"`, Version)) {
			t.Errorf("%T is %s", m, text)
		}
	}
}
