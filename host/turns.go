package host

import (
	"runtime"
	"sync/atomic"
	"time"
)

// turns is how calls share the processors. Where there are more calls, one that
// ends lets whoever is ready run first: so requests take each step, such as this
// module, the next, the answer's way to the network, one after another, and most
// find its code and data in the processor's cache. Where a processor is free a
// request goes on at once, for waking that one costs more than this saves.
type turns struct {
	processors int64
	underWay   atomic.Int64
	crowded    atomic.Int64 // the calls to come that are taken to be among too many
}

// crowd is for how many calls it counts that there were too many: most that run
// from beginning to end at one go never see the others.
const crowd = 64

func (t *turns) begin() { t.underWay.Add(1) }

func (t *turns) end() {
	if t.underWay.Load() > t.processors {
		t.crowded.Store(crowd)
	}
	if t.crowded.Load() > 0 {
		t.crowded.Add(-1)
		runtime.Gosched()
	}
	t.underWay.Add(-1)
}

// yield tells whether a call is to let others run, after computing for so long.
func (t *turns) yield(computed time.Duration) bool {
	return computed >= yieldAlone || computed >= yieldAfter && t.underWay.Load() >= t.processors
}
