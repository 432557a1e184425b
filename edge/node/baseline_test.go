package node

import (
	"context"
	"net/http"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/apikey"
	"partneredge/wasm/httpfront"
)

// TestServeModules serves plain Go as a node does, a key in the request and none.
func TestServeModules(t *testing.T) {
	t.Parallel()
	set := &httpfront.Modules{Gate: httpfront.Module{Headers: []string{"authorization"}, Caller: httpfront.Func(func(req *abi.Request, resp *abi.Response) {
		resp.Status = 401
		if _, given := req.Header("authorization"); given == 1 {
			resp.Status = 200
		}
	})}}
	url, stop, err := ServeModules(Config{}, set)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for _, key := range []string{"", "Bearer " + apikey.Mint(abi.EnvLive, new([apikey.RandomSize]byte))} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/v2/public/agents/me", nil)
		if err != nil {
			t.Fatal(err)
		}
		want := 401
		if key != "" {
			want = 200
			req.Header.Set("Authorization", key)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with key %q: status %d, want %d", key, resp.StatusCode, want)
		}
	}
}
