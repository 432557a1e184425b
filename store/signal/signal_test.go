package signal_test

import (
	"testing"

	"partneredge/store/signal"
)

// TestSend: sends that were not received become one, and none is lost.
func TestSend(t *testing.T) {
	s := signal.New()
	for _, sends := range []int{1, 3} {
		for range sends {
			s.Send()
		}
		if <-s; len(s) != 0 {
			t.Errorf("%d sends are received as more than one", sends)
		}
	}
}
