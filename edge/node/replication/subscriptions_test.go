package replication

import (
	"context"
	"strings"
	"testing"
	"time"

	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/wire"
	"partneredge/wasm/abi"
)

// TestLongDigestsAreSentShort: whatever a module gives as a request's digest, what the origin
// is to keep of it is short.
func TestLongDigestsAreSentShort(t *testing.T) {
	cfg, _ := emptyConfig(t)
	holdKey(t, cfg.Store, "key_1")
	p := abi.Principal{KeyID: "key_1", AccountID: "acc_1", Environment: abi.EnvTest}
	for _, size := range []int{0, 16, 64, 65, 90_000} {
		asked := 0
		cfg.Link = linktest.Link{Answer: func(_ context.Context, req, _ wire.Message) error {
			asked = len(req.(*wire.SubscribeRequest).Once.Digest)
			return nil
		}}
		cfg.WriteTimeout, cfg.PlaceTimeout = time.Minute, time.Minute
		once := &abi.SubscribeOnce{Key: "a", Digest: strings.Repeat("d", size), Subscription: abi.Subscription{ID: "whs_1"}}
		if _, err := newSubscriptions(cfg).SubscribeOnce(t.Context(), p, once); err != nil || asked > 128 {
			t.Errorf("of a digest of %d bytes the origin is sent %d, %v", size, asked, err)
		}
	}
}
