package webhooks

import (
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/typeid"
)

// random returns the last 8 bytes of the UUID in an id, which are random but for
// two bits of the first.
func random(t *testing.T, id string) []byte {
	t.Helper()
	var u [16]byte
	bit := -2 // 26 digits of 5 bits, for 128
	for _, digit := range strings.TrimPrefix(id, "whs_") {
		value := strings.IndexRune("0123456789abcdefghjkmnpqrstvwxyz", digit)
		for i := 4; i >= 0; i-- {
			if bit >= 0 && value>>i&1 == 1 {
				u[bit/8] |= 0x80 >> (bit % 8)
			}
			bit++
		}
	}
	if bit != 128 {
		t.Fatalf("id %q", id)
	}
	return u[8:]
}

// TestSecretIsNotInTheID subscribes with many requests' randomness. Nobody who sees
// the public id may know any part of the secret, wherever it lies.
func TestSecretIsNotInTheID(t *testing.T) {
	backend := newBackend()
	for seed := range 50 {
		req := request(`{"target_url":"https://example.com/hook","events":["deal.stage_changed"]}`)
		for i := range req.Random {
			req.Random[i] = byte(seed*31 + i*7)
		}
		var resp abi.Response
		Handle(req, &resp, backend.For(req.Principal))
		var answer struct {
			Subscription struct{ ID string }
			Secret       string
		}
		if err := json.Unmarshal(resp.Body, &answer); err != nil || resp.Status != 201 {
			t.Fatalf("%d %s: %v", resp.Status, resp.Body, err)
		}
		if dated := typeid.Make("whs", now/1000, [10]byte{}); answer.Subscription.ID[:14] != dated[:14] {
			t.Fatalf("id %s is of another time than %s", answer.Subscription.ID, dated)
		}
		public := random(t, answer.Subscription.ID)[1:]
		secret, err := hex.DecodeString(answer.Secret)
		if err != nil || len(secret) != 32 {
			t.Fatalf("secret %q", answer.Secret)
		}
		for i := range len(public) - 2 {
			if strings.Contains(string(secret), string(public[i:i+3])) {
				t.Fatalf("secret %x holds bytes of the id's %x", secret, public)
			}
		}
	}
}
