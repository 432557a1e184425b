package local

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"partneredge/store/durable"
	"partneredge/store/durable/durabletest"
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

// TestUnconfirmedPowerCut: after a power cut what was added is there, and what was
// removed is not. A change that failed may be either.
func TestUnconfirmedPowerCut(t *testing.T) {
	var there map[string]bool // by id, without those of changes that failed
	durabletest.Cuts(t, func(disk *durabletest.Disk, dir string) {
		there = map[string]bool{}
		s, err := Open(Config{Dir: dir, FS: disk})
		if err != nil {
			return
		}
		for i := range 6 {
			id := fmt.Sprint("whs_", i)
			if s.Unconfirmed.Add(UnconfirmedSubscription{ID: id, AccountID: "acc_1"}) == nil {
				there[id] = true
			}
			if i%2 == 1 {
				continue
			}
			if before := there[id]; s.Unconfirmed.Remove(id) == nil {
				there[id] = false
			} else if before {
				delete(there, id)
			}
		}
		_ = s.Close()
	}, func(when, dir string) {
		s, err := Open(Config{Dir: dir})
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		defer s.Close()
		all, err := s.Unconfirmed.All()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, one := range all {
			got[one.ID] = true
		}
		for id, want := range there {
			if got[id] != want {
				t.Fatalf("%s: %s is remembered: %v, want %v", when, id, got[id], want)
			}
		}
	})
}

// TestUnconfirmedFailedSync: a change whose sync fails is not made, and the file is
// written anew, since its next sync would say nothing about it.
func TestUnconfirmedFailedSync(t *testing.T) {
	dir := t.TempDir()
	disk := durabletest.New(t, dir)
	f, err := openFile(durable.Disk{FS: disk}, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	f.syncEach = true
	u := &Unconfirmed{f}
	if err := u.Add(UnconfirmedSubscription{ID: "whs_1"}); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the disk is broken")
	disk.Before(func(op durabletest.Op) error {
		if op.Kind == durabletest.Sync {
			return failed
		}
		return nil
	})
	if err := u.Remove("whs_1"); !errors.Is(err, failed) {
		t.Errorf("removed: %v", err)
	}
	if err := u.Add(UnconfirmedSubscription{ID: "whs_2"}); !errors.Is(err, failed) {
		t.Errorf("added: %v", err)
	}
	all, err := u.All()
	if err != nil || len(all) != 1 || all[0].ID != "whs_1" {
		t.Errorf("%+v, %v, want whs_1 alone", all, err)
	}
	disk.Before(func(durabletest.Op) error { return nil })
	for range 2 {
		if err := f.shrink(); err != nil {
			t.Error(err)
		}
	}
	if n := disk.Count(durabletest.Rename); n != 1 {
		t.Errorf("the file was written anew %d times, want once", n)
	}
}
