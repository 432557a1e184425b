package hosttest

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"

	"partneredge/host/engine"
)

// Shared is an engine whose compiled modules are shared by all the runtimes of a
// test program: a module that is opened a hundred times is decoded, checked and
// loaded once. Its New is a host.Config's Engine. It may be used from many
// goroutines at once. The caller closes it, after the runtimes.
type Shared struct {
	new      engine.New
	cacheDir string

	mu     sync.Mutex
	engine engine.Engine // nil: none was asked for yet
}

// Share shares an engine that new makes, with its cache in cacheDir; "" for none.
func Share(newEngine engine.New, cacheDir string) *Shared {
	return &Shared{new: newEngine, cacheDir: cacheDir}
}

// New implements engine.New. The cache and the log of config are not used.
func (s *Shared) New(ctx context.Context, config engine.Config) (engine.Engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		config.CacheDir, config.Log = s.cacheDir, slog.New(slog.DiscardHandler)
		e, err := s.new(ctx, config)
		if err != nil {
			return nil, err
		}
		s.engine = engine.Share(e)
	}
	return share{s.engine}, nil
}

// Close frees the engine and what it compiled.
func (s *Shared) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		return nil
	}
	return s.engine.Close(ctx)
}

// share is the engine of one runtime.
type share struct{ engine.Engine }

func (e share) Compile(ctx context.Context, wasm []byte) (engine.Code, error) {
	code, err := e.Engine.Compile(context.WithoutCancel(ctx), wasm)
	if err != nil {
		return nil, err
	}
	return keptCode{code}, nil
}

func (e share) Load(ctx context.Context, sum [sha256.Size]byte) engine.Code {
	if code := e.Engine.Load(context.WithoutCancel(ctx), sum); code != nil {
		return keptCode{code}
	}
	return nil
}

// Close does nothing: others use the engine.
func (share) Close(context.Context) error { return nil }

// keptCode is code that others use.
type keptCode struct{ engine.Code }

func (keptCode) Close(context.Context) error { return nil }
