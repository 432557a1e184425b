package local

import (
	"reflect"
	"testing"
	"time"
)

// TestUnconfirmed: what was not removed is there after a restart.
func TestUnconfirmed(t *testing.T) {
	dir := t.TempDir()
	at := time.UnixMicro(1_750_000_000_000_000)
	one := UnconfirmedSubscription{ID: "whs_1", AccountID: "acc_1", At: at}
	two := UnconfirmedSubscription{ID: "whs_2", AccountID: "acc_1", Once: "name", At: at.Add(time.Second)}
	s, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []UnconfirmedSubscription{one, two} {
		if err := s.Unconfirmed.Add(u); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Unconfirmed.Remove(one.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := s.Unconfirmed.All()
	if err != nil || !reflect.DeepEqual(all, []UnconfirmedSubscription{two}) {
		t.Errorf("%+v, %v, want %+v", all, err, two)
	}
}
