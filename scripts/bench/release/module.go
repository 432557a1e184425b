package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"partneredge/scripts/bench/fleet"
	"partneredge/scripts/bench/harness"
)

// module measures what a module's author waits for: from `edge module new` by build and
// run to the first answer, and from a save to the new answer. Go's build cache and that
// of compiled modules are warm, as after a first module.
func (b *bench) module(ctx context.Context) error {
	edge, err := filepath.Abs(b.edge)
	if err != nil {
		return err
	}
	var first, reload []float64
	for i := range b.authored + 1 {
		a := &author{edge: edge, name: fmt.Sprint("quotes", i), dir: filepath.Join(b.Dir, fmt.Sprint("quotes", i)), cache: filepath.Join(b.Dir, "module-cache")}
		answered, reloaded, err := a.work(ctx)
		if err != nil {
			return err
		}
		if i > 0 { // the first one warms the caches
			first, reload = append(first, answered.Seconds()), append(reload, reloaded...)
		}
	}
	b.Printf("from edge module new to the first answer %.2f s, from a save to the new answer %.2f s", first, reload)
	b.FigureOf("module", "new_to_answer_s", harness.Median(first), "s")
	b.FigureOf("module", "reload_s", harness.Median(reload), "s")
	return nil
}

// author writes a module.
type author struct {
	edge, name, dir, cache string
	url, key               string // of the module that runs
}

// savesEach is the number of changes of each module.
const savesEach = 3

func (a *author) work(ctx context.Context) (answered time.Duration, reloaded []float64, err error) {
	began := time.Now()
	for _, args := range [][]string{{"module", "new", a.name, "--dir", a.dir}, {"module", "build", a.dir}} {
		if out, err := exec.CommandContext(ctx, a.edge, args...).CombinedOutput(); err != nil {
			return 0, nil, fmt.Errorf("edge %v: %w: %s", args, err, out)
		}
	}
	stop, err := a.run(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer stop()
	if err := a.await(ctx, `{"hello":"ana"}`); err != nil {
		return 0, nil, err
	}
	answered = time.Since(began)
	source := filepath.Join(a.dir, "main.go")
	before := "hello"
	for i := range savesEach {
		text, err := os.ReadFile(source)
		if err != nil {
			return 0, nil, err
		}
		now := fmt.Sprint("hello", i)
		saved := time.Now()
		if err := os.WriteFile(source, bytes.Replace(text, []byte("`{\""+before+"\":`"), []byte("`{\""+now+"\":`"), 1), 0o600); err != nil {
			return 0, nil, err
		}
		if err := a.await(ctx, `{"`+now+`":"ana"}`); err != nil {
			return 0, nil, err
		}
		reloaded = append(reloaded, time.Since(saved).Seconds())
		before = now
	}
	return answered, reloaded, nil
}

// run serves the module, and returns once it says where. stop ends it.
func (a *author) run(ctx context.Context) (stop func(), err error) {
	cmd := exec.CommandContext(ctx, a.edge, "module", "run", a.dir, "--listen", "127.0.0.1:0", "--cache", a.cache, "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var draining sync.WaitGroup
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		draining.Wait()
		_ = cmd.Wait() // it was interrupted
	}
	var ready struct {
		URL string `json:"url"`
		Try string `json:"try"`
		Key string `json:"live_key"`
	}
	if err := json.NewDecoder(out).Decode(&ready); err != nil {
		stop()
		return nil, fmt.Errorf("edge module run: %w", err)
	}
	draining.Go(func() { _, _ = io.Copy(io.Discard, out) })
	a.url, a.key = ready.URL+ready.Try, ready.Key
	return stop, nil
}

// await asks the module until it gives an answer.
func (a *author) await(ctx context.Context, want string) error {
	return harness.Poll(ctx, "the answer "+want, func() (bool, error) {
		_, body, err := fleet.Send(ctx, http.DefaultClient, a.url, fleet.Bearer(a.key), nil)
		return err == nil && string(body) == want, nil // an error: not yet
	})
}
