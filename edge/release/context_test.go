package release

import (
	"context"
	"io"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"
)

// ofCaller is the key of the value that tells a caller's context from others.
type ofCaller struct{}

// attentive is a layout whose callers must hand their own caller's context on, so that what
// hangs ends with it.
type attentive struct{ *layout }

func (s attentive) check(ctx context.Context, what string) {
	s.Helper()
	if ctx.Value(ofCaller{}) == nil {
		s.Errorf("%s has another context", what)
	}
}

func (s attentive) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	s.check(ctx, "Fetch")
	return s.layout.Fetch(ctx, d)
}

func (s attentive) Push(ctx context.Context, d ocispec.Descriptor, from io.Reader) error {
	s.check(ctx, "Push")
	return s.layout.Push(ctx, d, from)
}

func (s attentive) Resolve(ctx context.Context, name string) (ocispec.Descriptor, error) {
	s.check(ctx, "Resolve")
	return s.layout.Resolve(ctx, name)
}

func (s attentive) Predecessors(ctx context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	s.check(ctx, "Predecessors")
	return s.layout.Predecessors(ctx, d)
}

func (s attentive) Tag(ctx context.Context, d ocispec.Descriptor, name string) error {
	s.check(ctx, "Tag")
	return s.layout.Tag(ctx, d, name)
}

// TestContextsReachTheSource: whatever is done with a release, a registry is asked within the
// caller's context.
func TestContextsReachTheSource(t *testing.T) {
	s, key := attentive{newLayout(t)}, newPair(t)
	ctx := context.WithValue(t.Context(), ofCaller{}, true)
	packed, err := Pack(ctx, s, modulesDir(t, "", "gate"), "1.4.0")
	if err != nil {
		t.Fatal(err)
	}
	name := string(packed.Digest)
	for what, do := range map[string]func() error{
		"Inspect": func() error { _, err := Inspect(ctx, OCI(s), name); return err },
		"Outline": func() error { _, err := Outline(ctx, OCI(s), name); return err },
		"Sign":    func() error { _, err := Sign(ctx, s, name, key.private); return err },
		"Copy": func() error {
			_, _, err := Copy(ctx, s, memory.New(), name, func(int64) func(int64) { return func(int64) {} })
			return err
		},
	} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := openDir(t, t.TempDir()).Fetch(ctx, OCI(s), name, trusting(key)); err != nil {
		t.Error(err)
	}
}
