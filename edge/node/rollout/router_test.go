package rollout

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"partneredge/wasm/abi"
	"partneredge/wasm/httpfront"
)

// plainDeployment answers in plain Go: the gate names the deployment in a header,
// and the handler in the body. It fails the test when it is called after it was
// closed.
func plainDeployment(t *testing.T, name string) *deployment {
	m := newModules()
	d := newDeployment(name, "", m, httpfront.Config{Answered: func(context.Context, *httpfront.Outcome) {}})
	open := func() {
		select {
		case <-d.closed:
			t.Errorf("%s answers after it was closed", name)
		default:
		}
	}
	*m.front = httpfront.Modules{
		Gate: httpfront.Module{Caller: plainCaller(func(_ *abi.Request, resp *abi.Response) error {
			open()
			resp.Handler = "echo"
			resp.Headers = append(resp.Headers, abi.Header{Name: "x-gate", Value: name})
			return nil
		})},
		Handlers: map[string]httpfront.Module{"echo": {Caller: plainCaller(func(_ *abi.Request, resp *abi.Response) error {
			open()
			resp.Status, resp.Body = 200, []byte(name)
			return nil
		})}},
	}
	return d
}

type plainCaller func(*abi.Request, *abi.Response) error

func (f plainCaller) Call(_ context.Context, req *abi.Request, resp *abi.Response) error {
	return f(req, resp)
}

// TestSwapsUnderLoad: while releases come, are tried, withdrawn and go, each
// request is answered, by one release alone, and each release that went is closed.
func TestSwapsUnderLoad(t *testing.T) {
	r := newRouter(plainDeployment(t, "first"))
	var stop atomic.Bool
	var answered atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for !stop.Load() {
				w := httptest.NewRecorder()
				r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
				if by := w.Header().Get("X-Gate"); w.Code != 200 || by == "" || by != w.Body.String() {
					t.Errorf("answered %d %q by the gate of %q", w.Code, w.Body, by)
					return
				}
				answered.Add(1)
			}
		})
	}
	var gone []*deployment
	for i := range 300 {
		l := plainDeployment(t, string(rune('A'+i%26)))
		switch i % 3 {
		case 0: // tried, and made the running one
			r.try(l, 10)
			r.try(l, 50)
			gone = append(gone, r.routes.Load().running)
			r.run(l)
		case 1: // tried, and withdrawn
			r.try(l, 100)
			r.withdraw()
			gone = append(gone, l)
		case 2: // made the running one beside another's trial
			other := plainDeployment(t, "other")
			r.try(other, 30)
			gone = append(gone, other, r.routes.Load().running)
			r.run(l)
		}
		for before := answered.Load(); answered.Load() < before+5 && !t.Failed(); {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		}
	}
	stop.Store(true)
	clients.Wait()
	for _, l := range gone {
		select {
		case <-l.closed:
		default:
			t.Errorf("%s was not closed", l.digest)
		}
	}
	select {
	case <-r.routes.Load().running.closed:
		t.Error("the running one was closed")
	default:
	}
}

func TestRequestUnderWayEndsWhereItBegan(t *testing.T) {
	old := plainDeployment(t, "old")
	begun, end := make(chan struct{}), make(chan struct{})
	inner := old.modules.front.Handlers["echo"].Caller
	old.modules.front.Handlers["echo"] = httpfront.Module{Caller: plainCaller(func(req *abi.Request, resp *abi.Response) error {
		close(begun)
		<-end
		return inner.Call(context.Background(), req, resp)
	})}
	r := newRouter(old)
	w := httptest.NewRecorder()
	var client sync.WaitGroup
	client.Go(func() { r.ServeHTTP(w, httptest.NewRequest("GET", "/", nil)) })
	<-begun
	r.run(plainDeployment(t, "new"))
	later := httptest.NewRecorder()
	r.ServeHTTP(later, httptest.NewRequest("GET", "/", nil))
	if later.Body.String() != "new" {
		t.Errorf("a request after the swap was answered by %q", later.Body)
	}
	select {
	case <-old.closed:
		t.Error("closed under a request")
	default:
	}
	close(end)
	client.Wait()
	if w.Code != http.StatusOK || w.Body.String() != "old" {
		t.Errorf("the request under way was answered %d %q", w.Code, w.Body)
	}
	<-old.closed
}

func TestPercentages(t *testing.T) {
	const requests = 20_000
	for _, percent := range []int{0, 1, 10, 50, 99, 100} {
		r := newRouter(plainDeployment(t, "old"))
		candidate := plainDeployment(t, "new")
		r.try(candidate, percent)
		picked := 0
		for range requests {
			d := r.pick()
			if d == candidate {
				picked++
			}
			d.leave()
		}
		// Six standard deviations of a coin at 50 %.
		if want := requests * percent / 100; picked < want-425 || picked > want+425 || percent == 0 && picked > 0 || percent == 100 && picked < requests {
			t.Errorf("%d %%: %d of %d", percent, picked, requests)
		}
	}
}

// What a release counts is what it answered itself.
func TestCounts(t *testing.T) {
	old, candidate := plainDeployment(t, "old"), plainDeployment(t, "new")
	r := newRouter(old)
	get := func() { r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) }
	get()
	r.try(candidate, 100)
	get()
	get()
	r.withdraw()
	get()
	if a, b := old.counts(), candidate.counts(); a.Requests != 2 || b.Requests != 2 || a.Errors+b.Errors != 0 {
		t.Errorf("old %+v, new %+v", a, b)
	}
}
