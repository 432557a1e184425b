package memory

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

const testSize = 3 << 20

func newTestImage(t testing.TB) *Image {
	t.Helper()
	content := make([]byte, testSize)
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 { // a third of the pages stays empty
		at := random.IntN(testSize / pageSize)
		for i := range pageSize {
			content[at*pageSize+i] = byte(random.Uint32())
		}
	}
	content[0] = 1
	image, err := NewImage(content)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(image.Close)
	if !bytes.Equal(image.Bytes(), content) {
		t.Fatal("the image is not what it was made of")
	}
	return image
}

// TestReset holds of every strategy that the machine has that whatever was written is
// gone.
func TestReset(t *testing.T) {
	image := newTestImage(t)
	available := Available()
	t.Logf("strategies here: %v", available)
	for s := Track; s <= Copy; s++ {
		t.Run(s.String(), func(t *testing.T) {
			if _, err := Choose(s); err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			m, err := image.Map(64<<20, s)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			rapid.Check(t, func(rt *rapid.T) {
				b := m.Resize(testSize)
				if rapid.Bool().Draw(rt, "watch") {
					m.Watch()
					defer m.Unwatch()
				}
				for range rapid.IntRange(0, 300).Draw(rt, "writes") {
					at := rapid.IntRange(0, testSize-1).Draw(rt, "at")
					n := min(rapid.IntRange(1, 3*pageSize).Draw(rt, "bytes"), testSize-at)
					for i := range n {
						b[at+i]++
					}
				}
				if _, err := m.Reset(); err != nil {
					rt.Fatal(err)
				}
				if !bytes.Equal(b, image.Bytes()) {
					rt.Fatal("memory is not the image")
				}
			})
			if _, err := m.Reset(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestGrow(t *testing.T) {
	image := newTestImage(t)
	s, err := Choose(Auto)
	if err != nil {
		t.Fatal(err)
	}
	m, err := image.Map(testSize+4*pageSize, s)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	asked := 0
	m.Grow = func(from, to int) bool {
		asked++
		return to <= testSize+2*pageSize
	}
	if m.Resize(testSize) == nil || asked != 0 {
		t.Error("the image's size is not usable at once")
	}
	b := m.Resize(testSize + 2*pageSize)
	if b == nil {
		t.Fatal("growth refused")
	}
	b[len(b)-1] = 1
	if m.Resize(testSize+3*pageSize) != nil {
		t.Error("growth granted that was refused")
	}
	if m.Resize(testSize+8*pageSize) != nil {
		t.Error("growth beyond the most")
	}
	if _, err := m.Reset(); err == nil {
		t.Error("reset after growth")
	}
	m.Free()
}

// TestUngrow: growth that was granted and then refused, beyond the most or by the system, is
// undone, so that nobody counts it. What was granted and given stays.
func TestUngrow(t *testing.T) {
	m, err := New(8*pageSize, Copy)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	taken := 0
	m.Grow = func(from, to int) bool {
		taken += to - from
		return true
	}
	m.Ungrow = func(from, to int) { taken -= to - from }
	if m.Resize(2*pageSize) == nil || taken != 2*pageSize {
		t.Errorf("%d bytes are taken", taken)
	}
	if m.Resize(9*pageSize) != nil || taken != 2*pageSize {
		t.Errorf("%d bytes are taken after growth beyond the most", taken)
	}
	m.Ungrow = nil
	if m.Resize(9*pageSize) != nil {
		t.Error("growth beyond the most")
	}
}

func TestAttach(t *testing.T) {
	image := newTestImage(t)
	s, _ := Choose(Auto)
	m, err := New(testSize, s)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	b := m.Resize(testSize)
	if !bytes.Equal(b, make([]byte, testSize)) {
		t.Fatal("new memory is not empty")
	}
	b[5] = 5
	if err := m.Attach(image); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, image.Bytes()) {
		t.Error("memory is not the image that was attached")
	}
	for _, none := range []Strategy{-1, Copy + 1} {
		if _, err := Choose(none); !errors.Is(err, ErrStrategy) {
			t.Errorf("%s: got %v", none, err)
		}
		if got, want := none.String(), fmt.Sprintf("strategy %d", int(none)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestWatch holds that a watched memory is restored though pages are not asked for each
// time, in whatever round a page is written for the first time.
func TestWatch(t *testing.T) {
	image := newTestImage(t)
	for _, s := range Available() {
		t.Run(s.String(), func(t *testing.T) {
			m, err := image.Map(testSize, s)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			b := m.Resize(testSize)
			for round := range 200 {
				m.Watch()
				for page := range min(round, 50) + 1 {
					b[page*7*pageSize]++
					if page%16 == round%16 { // wherever the new page lies, in some round a pause comes after it
						m.Pause()
						m.Resume()
					}
				}
				_, err := m.Reset()
				m.Unwatch()
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(b, image.Bytes()) {
					t.Fatalf("round %d: memory is not the image", round)
				}
			}
		})
	}
}

// BenchmarkReset resets a memory of which 16 scattered pages were written, the pages
// being asked for each time, or known.
func BenchmarkReset(b *testing.B) {
	for _, s := range Available() {
		for _, known := range []bool{false, true} {
			name := s.String() + "/asking"
			if known {
				name = s.String() + "/known"
			}
			b.Run(name, func(b *testing.B) {
				image := newTestImage(b)
				m, err := image.Map(testSize, s)
				if err != nil {
					b.Fatal(err)
				}
				defer m.Free()
				mem := m.Resize(testSize)
				for b.Loop() {
					if known {
						m.Watch()
					}
					for i := range 16 {
						mem[i*20*pageSize]++
					}
					if _, err := m.Reset(); err != nil {
						b.Fatal(err)
					}
					if known {
						m.Unwatch()
					}
				}
			})
		}
	}
}
