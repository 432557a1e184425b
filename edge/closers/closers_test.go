package closers_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"partneredge/edge/closers"
)

func TestClose(t *testing.T) {
	var (
		stack  closers.Stack
		ended  []string
		failed = errors.New("failed")
	)
	stack.AddFunc(func() { ended = append(ended, "first") })
	stack.Add(func(context.Context) error { ended = append(ended, "second"); return failed })
	stack.AddFunc(func() { ended = append(ended, "third") })
	if err := stack.Close(t.Context()); !errors.Is(err, failed) {
		t.Errorf("Close returned %v, want %v", err, failed)
	}
	if err := stack.Close(t.Context()); err != nil {
		t.Errorf("the second Close returned %v", err)
	}
	if want := []string{"third", "second", "first"}; !slices.Equal(ended, want) {
		t.Errorf("ended %q, want %q", ended, want)
	}
}
