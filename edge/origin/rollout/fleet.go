package rollout

import (
	"partneredge/edge/origin/replication"
	"partneredge/edge/wire"
	"partneredge/store"
)

// fleet holds the last reports of all nodes, and sums over them for the rollout under way.
// The sums are kept as reports come in, so that a look costs the same however many nodes
// there are.
type fleet struct {
	reports map[string]replication.Report // of enrolled nodes
	active  *store.Rollout                // nil: none
	wants   map[string]string             // digests by node, and under "" for all others
	// rolledBack is the digest of the newest rollout's release, if that goes back or has; else "".
	rolledBack string
	places     map[string]int // of the nodes of active, by id
	tally      *tally         // of active
	watch      watch
	// disobedient are the connected nodes whose status is not what their order asks for.
	disobedient map[string]struct{}
}

func newFleet() *fleet { return &fleet{reports: make(map[string]replication.Report)} }

// plan sets what the nodes are to run and what was rolled back, for which it looks at all of them.
func (f *fleet) plan(active *store.Rollout, wants map[string]string, rolledBack string) {
	f.active, f.wants, f.rolledBack = active, wants, rolledBack
	f.places, f.tally, f.disobedient = nil, nil, make(map[string]struct{})
	if active != nil {
		f.places = make(map[string]int, len(active.Nodes))
		for i, n := range active.Nodes {
			f.places[n.ID] = i
		}
		f.tally = count(active, f.reports)
		f.watch.count(active, f.reports)
	}
	for id := range f.reports {
		f.judgeObedience(id)
	}
}

// hear takes in a node whose report has changed. One of a build too old to say what it
// runs counts as away: it can be given no order.
func (f *fleet) hear(c replication.Change) {
	was, known := f.reports[c.ID]
	c.Connected = c.Connected && c.Status.Running != nil
	if c.Enrolled {
		f.reports[c.ID] = c.Report
	} else {
		delete(f.reports, c.ID)
	}
	if i, listed := f.places[c.ID]; listed {
		f.tally.remove(i, stateOf(f.active, i, was, known))
		f.tally.add(i, stateOf(f.active, i, c.Report, c.Enrolled))
		f.watch.replace(f.active, i, was, c.Report)
	}
	f.judgeObedience(c.ID)
}

// judgeObedience notes whether a node is to be sent its order.
func (f *fleet) judgeObedience(id string) {
	at := f.reports[id]
	if order, decided := f.orderOf(id); at.Connected && decided && !obeys(at.Status, order) {
		f.disobedient[id] = struct{}{}
	} else {
		delete(f.disobedient, id)
	}
}

// orderOf returns what a node is to run. decided is false for a node that nothing was
// ever decided about.
func (f *fleet) orderOf(node string) (o wire.Order, decided bool) {
	if i, listed := f.places[node]; listed {
		o, decided = orderAt(f.active, i), true
	} else if o.Run, decided = f.wants[node]; !decided {
		o.Run, decided = f.wants[""]
	}
	if o.Run != f.rolledBack {
		o.RolledBack = f.rolledBack
	}
	return o, decided
}

// tally counts the nodes of a rollout by what they do.
type tally struct {
	serving int // reached and connected nodes that give the release their share of requests
	missing int // those that do not
	// Enrolled nodes:
	enrolled int // of the rollout
	reached  int // that the release has reached
	// Places of nodes:
	refused map[int]struct{} // that refused or withdrew the release
	lost    map[int]struct{} // that served the release and no longer do, or got it and are not connected
	away    map[int]struct{} // that are not connected
	behind  map[int]struct{} // that are connected and do not run again what they ran before
	fresh   map[int]struct{} // that are connected and get the release, which is not noted of them yet
}

// state holds the counts of a tally in which one node takes part.
type state struct{ serving, missing, enrolled, reached, refused, lost, away, behind, fresh bool }

// stateOf returns what the i-th node of a rollout does. One that is not enrolled does
// nothing, and is not waited for.
func stateOf(r *store.Rollout, i int, at replication.Report, enrolled bool) (s state) {
	if !enrolled {
		return s
	}
	is, trial := ready(r, at), at.Status.Candidate
	percent := percentAt(r, i)
	s.enrolled, s.reached = true, percent > 0
	if s.reached && at.Connected {
		s.serving = is && trial.Percent == percent
		s.missing = !s.serving
		s.fresh = !r.Nodes[i].Ordered
	}
	s.refused = trial != nil && trial.Rollout == r.ID && trial.Digest == r.Digest && trial.State.Ended()
	s.lost = r.Nodes[i].Served && !is || r.Nodes[i].Ordered && !at.Connected
	s.away = !at.Connected
	s.behind = at.Connected && !isBack(at.Status, r.Nodes[i].Before)
	return s
}

// count returns the tally of a rollout by a look at all its nodes.
func count(r *store.Rollout, reports map[string]replication.Report) *tally {
	t := &tally{
		refused: make(map[int]struct{}), lost: make(map[int]struct{}),
		away: make(map[int]struct{}), behind: make(map[int]struct{}), fresh: make(map[int]struct{}),
	}
	for i, n := range r.Nodes {
		at, enrolled := reports[n.ID]
		t.add(i, stateOf(r, i, at, enrolled))
	}
	return t
}

func (t *tally) add(i int, s state) {
	t.change(s, 1, func(set map[int]struct{}) { set[i] = struct{}{} })
}

func (t *tally) remove(i int, s state) {
	t.change(s, -1, func(set map[int]struct{}) { delete(set, i) })
}

func (t *tally) change(s state, by int, do func(set map[int]struct{})) {
	for _, in := range []struct {
		is  bool
		sum *int
	}{{s.serving, &t.serving}, {s.missing, &t.missing}, {s.enrolled, &t.enrolled}, {s.reached, &t.reached}} {
		if in.is {
			*in.sum += by
		}
	}
	for _, in := range []struct {
		is  bool
		set map[int]struct{}
	}{{s.refused, t.refused}, {s.lost, t.lost}, {s.away, t.away}, {s.behind, t.behind}, {s.fresh, t.fresh}} {
		if in.is {
			do(in.set)
		}
	}
}

// serves reports whether every connected node that the release has reached gives it its
// share of requests, and at least one node does.
func (t *tally) serves() bool { return t.serving > 0 && t.missing == 0 }

// first returns the least of some places, as far as there is one.
func first(places map[int]struct{}) (least int, any bool) {
	for i := range places {
		if !any || i < least {
			least, any = i, true
		}
	}
	return least, any
}
