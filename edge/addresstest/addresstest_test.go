package addresstest

import (
	"net"
	"testing"
)

// TestFixedIsGivenOnce claims an address that was given: nobody else may have it, though
// nobody listens there.
func TestFixedIsGivenOnce(t *testing.T) {
	address := Fixed(t)
	if claim(address) {
		t.Errorf("%s was given twice", address)
	}
	for range 2 {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if claim(l.Addr().String()) {
		t.Errorf("%s was claimed, where somebody listens", l.Addr())
	}
	if next := Fixed(t); next == address {
		t.Errorf("%s was given twice", next)
	}
}
