package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// TestRequestsAreMergedAsTheyCome: of many nodes' requests the newest are listed, in their
// order, and no more than one node's are held beside them.
func TestRequestsAreMergedAsTheyCome(t *testing.T) {
	const nodes, limit = 100, 200
	began := time.Date(2026, 3, 2, 14, 5, 11, 0, time.UTC)
	var want []string
	a := &api{asking: make(chan struct{}, maxAsking), Config: Config{Requests: func(_ context.Context, region string, req wire.RequestsRequest, each func(replication.NodeAnswer[wire.RequestsReply])) {
		if region != "us" || req.Limit != limit {
			t.Errorf("asked are nodes of %q for %d requests", region, req.Limit)
		}
		for node := range nodes {
			var reply wire.RequestsReply
			for i := range wire.MaxRequests { // an older node knows no limit
				at := node*7%nodes + nodes*i
				reply.Requests = append(reply.Requests, wire.AnsweredRequest{ID: fmt.Sprint("req_", at), At: began.Add(time.Duration(at) * time.Second)})
			}
			each(replication.NodeAnswer[wire.RequestsReply]{Node: store.Node{Name: fmt.Sprint(node)}, Reply: reply})
		}
	}}}
	for i := range limit {
		want = append(want, fmt.Sprint("req_", nodes*wire.MaxRequests-1-i))
	}
	got, err := a.listAllRequests(httptest.NewRequest(http.MethodGet, "/requests?region=us&limit=200", nil))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	items := got.body.(adminapi.Requests).Items
	for _, one := range items {
		ids = append(ids, one.ID)
	}
	if !slices.Equal(ids, want) {
		t.Errorf("listed are %s", strings.Join(ids, " "))
	}
	if most := 4 * (limit + wire.MaxRequests); cap(items) > most {
		t.Errorf("%d requests were held, want at most %d", cap(items), most)
	}
}

// TestFewAskAtATime: further calls wait for those that ask nodes, or until their client is gone.
func TestFewAskAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, goOn := 0, make(chan struct{})
		a := &api{asking: make(chan struct{}, maxAsking), Config: Config{Requests: func(context.Context, string, wire.RequestsRequest, func(replication.NodeAnswer[wire.RequestsReply])) {
			asked++
			<-goOn
		}}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, maxAsking+1)
		for range maxAsking + 1 {
			go func() {
				_, err := a.listAllRequests(httptest.NewRequest(http.MethodGet, "/requests", nil).WithContext(ctx))
				ended <- err
			}()
			synctest.Wait()
		}
		if asked != maxAsking {
			t.Errorf("%d calls ask, want %d", asked, maxAsking)
		}
		cancel()
		if err := <-ended; err == nil {
			t.Error("a call whose client is gone asked nevertheless")
		}
		close(goOn)
		for range maxAsking {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}
