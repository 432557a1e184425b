package hosttest_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"partneredge/host/hosttest"
	"partneredge/wasm/fake"
)

// The clock stands still and the seed is fixed, so the answer is always this. A
// test calls hosttest.Handler(t, …) instead, and closes nothing.
func Example() {
	dir, err := built()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, clock := context.Background(), fake.NewClock()
	backend, demo := fake.NewDemo(clock.Now)
	api, err := hosttest.Config{}.Open(ctx, dir, backend, clock.Now)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer api.Close(ctx)

	req := httptest.NewRequest("GET", "/api/v2/public/agents/me", nil)
	req.Header.Set("Authorization", "Bearer "+demo.Live)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, req)
	fmt.Println(w.Code, w.Header().Get("X-Ratelimit-Remaining"))
	fmt.Println(w.Body)
	// Output:
	// 200 99
	// {"agent":{"id":"agt_01jxt21q00f63vxkkd6t5ar6kf","email":"ana@example.com","full_name":"Ana Lima","joined_at":"2025-06-15T15:06:40.000000Z"},"account":{"id":"acc_01jxt21q00e6f8c9y7dcdzp7x3","name":"Lima Realty","activation_mode":"live"},"api_version":"v2"}
}
