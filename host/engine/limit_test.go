package engine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"partneredge/host/engine"
)

// slow is an engine that takes some time to compile a module.
type slow struct {
	*compiler
	takes time.Duration
}

func (s slow) Compile(ctx context.Context, wasm []byte) (engine.Code, error) {
	select {
	case <-time.After(s.takes):
		return s.compiler.Compile(ctx, wasm)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// TestLimit holds that modules are compiled one at a time, equal ones or not, and that
// compiling ends at its limit, to which the wait for others does not count.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		e := engine.Share(engine.Limit(slow{newCompiler(), time.Hour}, time.Minute))
		ended := make(chan error, 4)
		for n := range cap(ended) {
			go func() {
				_, err := e.Compile(t.Context(), []byte{byte(n / 2)})
				ended <- err
			}()
		}
		for n := range cap(ended) {
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "longer than 1m0s to compile") {
				t.Errorf("got %v", err)
			}
			if took, want := time.Since(began), time.Duration(n+1)*time.Minute; took != want {
				t.Errorf("number %d ended after %v, want %v", n, took, want)
			}
		}
	})
}

// TestLimitHeeds holds that the wait for one's turn ends with its context.
func TestLimitHeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engine.Limit(slow{newCompiler(), time.Minute}, time.Hour)
		ended := make(chan error, 1)
		go func() {
			_, err := e.Compile(t.Context(), []byte("one"))
			ended <- err
		}()
		synctest.Wait() // the first compiles
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.Compile(over, []byte("two")); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestShareHeeds holds that the wait for an equal module ends with its context.
func TestShareHeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := newCompiler()
		e := engine.Share(slow{c, time.Hour})
		first := make(chan engine.Code, 1)
		go func() {
			code, err := e.Compile(t.Context(), []byte("one"))
			if err != nil {
				t.Error(err)
			}
			first <- code
		}()
		synctest.Wait() // the first compiles
		over := errors.New("over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, over)
		defer cancel()
		if _, err := e.Compile(ctx, []byte("one")); !errors.Is(err, over) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := (<-first).Close(t.Context()); err != nil || c.open["one"] != 0 {
			t.Errorf("%d codes are left, %v", c.open["one"], err)
		}
	})
}

// keeping is an engine that keeps the module "kept".
type keeping struct{ slow }

func (k keeping) Load(ctx context.Context, sum [sha256.Size]byte) engine.Code {
	if sum != sha256.Sum256([]byte("kept")) {
		return nil
	}
	time.Sleep(k.takes)
	code, _ := k.compiler.Compile(ctx, []byte("kept"))
	return code
}

// TestLimitLoadsAtOnce holds that a module that is kept does not wait for one that is
// compiled.
func TestLimitLoadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		e := engine.Limit(keeping{slow{newCompiler(), time.Minute}}, time.Hour)
		ended := make(chan time.Duration, 3)
		for _, name := range []string{"one", "two", "kept"} {
			go func() {
				if _, err := e.Compile(t.Context(), []byte(name)); err != nil {
					t.Error(err)
				}
				ended <- time.Since(began)
			}()
		}
		for _, want := range []time.Duration{time.Minute, time.Minute, 2 * time.Minute} {
			if got := <-ended; got != want {
				t.Errorf("one ended after %v, want %v", got, want)
			}
		}
	})
}
