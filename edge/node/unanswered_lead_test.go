package node

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"partneredge/store"
	"partneredge/store/durable"
)

// heldOutbox is a disk whose syncs of the outbox, once they are to hang, wait.
type heldOutbox struct {
	durable.OS
	mu    sync.Mutex
	begun chan struct{} // closed by the first sync that hangs; nil: none does
	held  chan struct{} // closed to let them go on
}

type heldFile struct {
	durable.File
	disk *heldOutbox
}

func (d *heldOutbox) OpenFile(name string, flag int, perm os.FileMode) (durable.File, error) {
	f, err := d.OS.OpenFile(name, flag, perm)
	if err != nil || !strings.Contains(name, "outbox.log") {
		return f, err
	}
	return heldFile{f, d}, nil
}

func (f heldFile) SyncData() error {
	f.disk.mu.Lock()
	begun, held := f.disk.begun, f.disk.held
	if begun != nil {
		select {
		case <-begun:
		default:
			close(begun)
		}
	}
	f.disk.mu.Unlock()
	if begun != nil {
		<-held
	}
	return f.File.SyncData()
}

// TestLeadOfA500MayBeKept: the disk takes longer than the request may, so the answer is 500,
// and the lead is kept all the same. The API document says so of each POST.
func TestLeadOfA500MayBeKept(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.accounts["acc_1"] = store.Account{ID: "acc_1", Name: "Acme"}
	key := o.addKey("key_1", func(k *store.Key) { k.RateLimit = 1_000_000 })
	c := config(t, o)
	c.callTimeout = time.Second
	disk := &heldOutbox{held: make(chan struct{})}
	c.FS = disk
	n := startNode(t, c)
	eventually(t, "the key is known", func() bool { return ask(t, n, "GET", me, key, "").status == 200 })
	disk.mu.Lock()
	disk.begun = make(chan struct{})
	disk.mu.Unlock()
	proceed := sync.OnceFunc(func() { close(disk.held) })
	t.Cleanup(proceed) // before the node stops

	sent := 0
	eventually(t, "a lead is on its way to the disk", func() bool {
		sent++ // on a busy machine the time may have passed before
		ask(t, n, "POST", newLead, key, fmt.Sprintf(`{"name":"Lead %d","phone":"5550100"}`, sent)).want(t, 500, "internal_error")
		select {
		case <-disk.begun:
			return true
		default:
			return false
		}
	})
	proceed()
	eventually(t, "a lead whose answer was 500 is at the origin", func() (kept bool) {
		o.do(func() { kept = len(o.leads) > 0 })
		return kept
	})
}
