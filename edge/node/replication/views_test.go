package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
	"unsafe"

	"pgregory.net/rapid"

	"partneredge/edge/node/replication/link"
	"partneredge/edge/node/replication/link/linktest"
	"partneredge/edge/places"
	"partneredge/edge/wire"
	"partneredge/host"
	"partneredge/store"
	"partneredge/store/local"
	"partneredge/wasm/abi"
)

// Whatever is asked, the part that is held answers as the whole would, or says
// that it cannot.
func TestHeldFiringsAnswerLikeTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := make([]abi.Firing, rapid.IntRange(0, 12).Draw(t, "whole"))
		for i := range whole {
			whole[i].Triggered = int64(2 * (len(whole) - i)) // newest first
		}
		held := rapid.IntRange(0, len(whole)).Draw(t, "held")
		before := rapid.Int64Range(0, int64(2*len(whole)+2)).Draw(t, "before")
		limit := rapid.IntRange(1, 14).Draw(t, "limit")

		var want abi.Firings
		for _, f := range whole {
			if before != 0 && f.Triggered >= before {
				continue
			}
			if len(want.Items) == limit {
				want.More = true
				break
			}
			want.Items = append(want.Items, f)
		}
		got := abi.Firings{Items: whole[:held], More: held < len(whole)}
		if !older(&got, before, limit) {
			if held == len(whole) {
				t.Fatal("all are held, and it is not enough")
			}
			return
		}
		if got.More != want.More || len(got.Items) != len(want.Items) {
			t.Fatalf("%d, more %v; want %d, more %v", len(got.Items), got.More, len(want.Items), want.More)
		}
		for i := range got.Items {
			if got.Items[i].Triggered != want.Items[i].Triggered {
				t.Fatalf("item %d is %v, want %v", i, got.Items[i], want.Items[i])
			}
		}
	})
}

func TestNewer(t *testing.T) {
	items := []abi.Insight{{Created: 30}, {Created: 20}, {Created: 10}}
	for _, c := range []struct {
		since int64
		limit int
		want  int
	}{{0, 10, 3}, {0, 2, 2}, {10, 10, 2}, {9, 10, 3}, {30, 10, 0}, {0, 0, 0}} {
		if got := len(newer(items, c.since, c.limit)); got != c.want {
			t.Errorf("since %d, limit %d: %d items, want %d", c.since, c.limit, got, c.want)
		}
	}
}

// TestTextsOfViewsAreUTF8 holds what modules rely on, whatever the origin sends.
func TestTextsOfViewsAreUTF8(t *testing.T) {
	const bad = "\"a\xff\xed\xa0\x80\""
	var reply wire.ViewReply
	if err := wire.Decode([]byte(`{"v":`+strconv.Itoa(wire.Version)+`,"insights":[{"id":`+bad+`,"headline":`+bad+`,"detail":`+bad+`}],`+
		`"firings":[{"id":`+bad+`,"sentinel_name":`+bad+`,"action_taken":`+bad+`}]}`), &reply); err != nil {
		t.Fatal(err)
	}
	var insights abi.Insights
	var firings abi.Firings
	if err := errors.Join(insights.Parse(insightsFrame(reply.Insights, true)), firings.Parse(firingsFrame(reply.Firings, false))); err != nil {
		t.Fatal(err)
	}
	if len(insights.Items) != 1 || len(firings.Items) != 1 {
		t.Fatalf("%d insights and %d firings, want one of each", len(insights.Items), len(firings.Items))
	}
	i, f := insights.Items[0], firings.Items[0]
	for _, text := range []string{i.ID, i.Headline, i.Detail, f.ID, f.Name, f.Action} {
		if !strings.HasPrefix(text, "a\uFFFD") || !utf8.ValidString(text) {
			t.Errorf("the text %q", text)
		}
	}
}

// holdKey has a store hold a key, whose hash is its id.
func holdKey(t *testing.T, state *local.Store, id string) {
	t.Helper()
	if _, err := state.Keys.Put(id, local.Record{Ref: id, Fetched: time.Now()}, state.Keys.Epoch()); err != nil {
		t.Fatal(err)
	}
}

// restartedLink keeps what is to be called when the connection begins and ends.
type restartedLink struct {
	linktest.Link
	connected, lost func()
}

var errNotStarted = errors.New("nothing is to be started")

func (l *restartedLink) Connect(connected, lost func()) error {
	l.connected, l.lost = connected, lost
	return errNotStarted
}

// TestViewsLeaveSandboxes: while an origin that is connected answers no question for views, few
// of an account's requests for views that are missing or stale wait for it, and beyond those a
// stale view is served at once. An origin that answers, be it that it failed at the view of one
// account, refuses no burst, nor does one that is connected again.
func TestViewsLeaveSandboxes(t *testing.T) {
	const asked = 100
	cfg, _ := emptyConfig(t)
	cfg.ReadTimeout, cfg.MaxStale = suspensionGap/4, time.Hour
	cfg.NoteAge, cfg.Counters.Views = func(context.Context, time.Duration) {}, func(string, int) {}
	of := func(account string) abi.Principal {
		holdKey(t, cfg.Store, "key of "+account)
		return abi.Principal{AccountID: account, KeyID: "key of " + account}
	}
	var mute atomic.Bool
	l := &restartedLink{Link: linktest.Link{Answer: func(ctx context.Context, req, reply wire.Message) error {
		if mute.Load() {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", host.ErrUnavailable, ctx.Err())
		}
		time.Sleep(time.Millisecond) // so that a burst shares it
		if req.(*wire.ViewRequest).AccountID == "damaged" {
			return fmt.Errorf("%w: %w", host.ErrUnavailable, link.ErrInternal)
		}
		reply.(*wire.ViewReply).Account = new(store.Account)
		return nil
	}}}
	cfg.Link = l
	synctest.Test(t, func(t *testing.T) {
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Stop()
		if err := r.Start(); !errors.Is(err, errNotStarted) {
			t.Fatal(err)
		}
		connect := func() {
			l.connected()
			r.sync.state.complete(r.sync.state.presentAttempt())
		}
		view := func(p abi.Principal) error {
			_, err := r.Capabilities().Views.AppendProfile(t.Context(), nil, p)
			return err
		}
		// burst has an account ask at once, waits until all requests have ended, and requires
		// how many of them are refused and served before the origin is given up.
		burst := func(when string, p abi.Principal, refused, served int) {
			t.Helper()
			errs := make(chan error, asked)
			for range asked {
				go func() { errs <- view(p) }()
			}
			time.Sleep(cfg.ReadTimeout / 2)
			failed, answered := 0, 0
			for range len(errs) {
				if <-errs != nil {
					failed++
				} else {
					answered++
				}
			}
			if failed != refused || answered != served {
				t.Errorf("%s: %d requests are refused and %d served at once, want %d and %d", when, failed, answered, refused, served)
			}
			time.Sleep(cfg.ReadTimeout)
		}
		unanswered := func(p abi.Principal) {
			t.Helper()
			mute.Store(true)
			if err := view(p); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a view of a mute origin: %v", err)
			}
		}

		connect()
		if err := view(of("damaged")); !errors.Is(err, link.ErrInternal) {
			t.Errorf("a view that the origin fails at: %v", err)
		}
		burst("beside a damaged account", of("a"), 0, asked)

		unanswered(of("b"))
		burst("a view that is not held, of a mute origin", of("b"), asked-maxWaiting, 0)
		if _, _, err := cfg.Store.Views.Change("profile/a", 1, nil); err != nil {
			t.Fatal(err)
		}
		burst("a stale view, of a mute origin", of("a"), 0, asked-maxWaiting)
		mute.Store(false)
		if err := view(of("b")); err != nil {
			t.Error(err)
		}
		burst("the origin answers again", of("c"), 0, asked)

		unanswered(of("d"))
		l.lost()
		mute.Store(false)
		connect()
		burst("the origin is connected again", of("d"), 0, asked)

		go unanswered(of("e"))
		synctest.Wait()
		l.lost()
		mute.Store(false)
		connect()
		time.Sleep(cfg.ReadTimeout)
		synctest.Wait()
		burst("a question was lost with the connection", of("f"), 0, asked)
	})
}

// TestStaleViewsAreServedForMaxStale: a view that has changed, and that an origin which is heard
// fails at, is served for MaxStale after the change, however long before that it was fetched.
func TestStaleViewsAreServedForMaxStale(t *testing.T) {
	began := time.Now()
	var passed atomic.Int64
	clock := func() time.Time { return began.Add(time.Duration(passed.Load())) }
	held, err := local.Open(local.Config{Dir: t.TempDir(), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	holdKey(t, held, "key_1")
	failing := false
	var age time.Duration
	cfg := Config{
		Store: held, ReadTimeout: time.Second, MaxStale: time.Hour, Now: clock, Log: slog.New(slog.DiscardHandler),
		NoteAge: func(_ context.Context, a time.Duration) { age = a }, Counters: Counters{Views: func(string, int) {}},
		Link: linktest.Link{Answer: func(_ context.Context, _, reply wire.Message) error {
			if failing {
				return fmt.Errorf("%w: %w", host.ErrUnavailable, link.ErrInternal)
			}
			reply.(*wire.ViewReply).Account = new(store.Account)
			return nil
		}},
	}
	synctest.Test(t, func(t *testing.T) { // so that the process is not taken for suspended
		s := &synchronizer{Config: cfg, state: newState(cfg.Link.Up, cfg.Log)}
		s.state.connect()
		s.state.complete(s.state.presentAttempt())
		v := views{newReplica(t.Context(), cfg), s, &places.Places[caller]{Each: maxWaiting}}
		view := func() error {
			_, err := v.AppendProfile(t.Context(), nil, abi.Principal{AccountID: "acc_1", KeyID: "key_1"})
			return err
		}
		if err := view(); err != nil {
			t.Fatal(err)
		}
		failing = true
		const before = 10 * time.Hour
		passed.Add(int64(before))
		if err := view(); err != nil || age != 0 {
			t.Errorf("a view that nothing happened to: age %v, %v", age, err)
		}
		if err := v.apply(store.Change{Seq: 1, Kind: store.ChangeProfile, Ref: "acc_1"}); err != nil {
			t.Fatal(err)
		}
		passed.Add(int64(cfg.MaxStale))
		if err := view(); err != nil || age != before+cfg.MaxStale {
			t.Errorf("MaxStale after the change: age %v, %v", age, err)
		}
		passed.Add(int64(time.Second))
		if err := view(); !errors.Is(err, link.ErrInternal) {
			t.Errorf("later than that: age %v, %v, want the origin's failure", age, err)
		}
	})
}

// TestBadAnswersAreNotTheModulesFault: where the origin finds a question for a view invalid, in
// which nothing is the module's but a time and a number, the view is unavailable and the log says
// why. A stale one is served, and a frame that cannot be read is not the module's.
func TestBadAnswersAreNotTheModulesFault(t *testing.T) {
	cfg, _ := emptyConfig(t)
	cfg.ReadTimeout, cfg.MaxStale = time.Second, time.Hour
	cfg.NoteAge, cfg.Counters.Views = func(context.Context, time.Duration) {}, func(string, int) {}
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	holdKey(t, cfg.Store, "key_1")
	cfg.Link = linktest.Link{Answer: func(context.Context, wire.Message, wire.Message) error { return link.ErrInvalid }}
	p := abi.Principal{AccountID: "acc_1", KeyID: "key_1"}
	synctest.Test(t, func(t *testing.T) { // so that the process is not taken for suspended
		s := &synchronizer{Config: cfg, state: newState(cfg.Link.Up, cfg.Log)}
		s.state.connect()
		s.state.complete(s.state.presentAttempt())
		v := views{newReplica(t.Context(), cfg), s, &places.Places[caller]{Each: maxWaiting}}
		hold := func(kind store.ChangeKind, frame string) {
			t.Helper()
			rec := local.Record{Ref: viewName(kind, p.AccountID), Frame: frame, Fetched: cfg.Now()}
			if _, err := cfg.Store.Views.Put(rec.Ref, rec, cfg.Store.Views.Epoch()); err != nil {
				t.Fatal(err)
			}
		}
		profile := func() ([]byte, error) { return v.AppendProfile(t.Context(), nil, p) }
		insights := func() ([]byte, error) { return v.AppendInsights(t.Context(), nil, p, 0, 1) }
		firings := func() ([]byte, error) { return v.AppendFirings(t.Context(), nil, p, 0, 1) }

		unavailable := func(name string, ask func() ([]byte, error)) {
			t.Helper()
			if _, err := ask(); !errors.Is(err, host.ErrUnavailable) || errors.Is(err, host.ErrInvalid) {
				t.Errorf("%s: %v, want it unavailable", name, err)
			}
		}
		unavailable("profile", profile)
		unavailable("insights", insights)
		hold(store.ChangeFirings, string(firingsFrame(nil, true)))
		unavailable("an older page of firings", firings)
		if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), link.ErrInvalid.Error()) {
			t.Errorf("the log says %q", log.String())
		}

		hold(store.ChangeProfile, "a profile")
		if _, _, err := cfg.Store.Views.Change(viewName(store.ChangeProfile, p.AccountID), 1, nil); err != nil {
			t.Fatal(err)
		}
		if frame, err := profile(); err != nil || string(frame) != "a profile" {
			t.Errorf("a stale profile: %q, %v", frame, err)
		}

		for kind, ask := range map[store.ChangeKind]func() ([]byte, error){store.ChangeInsights: insights, store.ChangeFirings: firings} {
			hold(kind, "no frame")
			if _, err := ask(); err == nil || errors.Is(err, abi.ErrFrame) {
				t.Errorf("%s in a frame that cannot be read: %v", kind, err)
			}
		}
	})
}

// TestLimitsBeyondTheMost: a limit above the most items of an answer is answered as the most
// are, from the held view, also while the origin is away.
func TestLimitsBeyondTheMost(t *testing.T) {
	cfg, _ := emptyConfig(t)
	cfg.ReadTimeout, cfg.MaxStale = time.Second, time.Hour
	cfg.NoteAge, cfg.Counters.Views = func(context.Context, time.Duration) {}, func(string, int) {}
	holdKey(t, cfg.Store, "key_1")
	away := false
	cfg.Link = linktest.Link{Answer: func(_ context.Context, req, reply wire.Message) error {
		if away {
			return host.ErrUnavailable
		}
		view := reply.(*wire.ViewReply)
		if req.(*wire.ViewRequest).Kind == store.ChangeInsights {
			view.Insights, view.History = make([]store.Insight, wire.MaxInsights), true
		} else {
			view.Firings, view.More = make([]store.Firing, wire.MaxFirings), true
		}
		return nil
	}}
	synctest.Test(t, func(t *testing.T) { // so that the process is not taken for suspended
		s := &synchronizer{Config: cfg, state: newState(cfg.Link.Up, cfg.Log)}
		s.state.connect()
		s.state.complete(s.state.presentAttempt())
		v := views{newReplica(t.Context(), cfg), s, &places.Places[caller]{Each: maxWaiting}}
		for _, limit := range []int{wire.MaxInsights, wire.MaxInsights + 1, wire.MaxFirings + 1, 1 << 30} {
			p := abi.Principal{AccountID: "acc_1", KeyID: "key_1"}
			var insights abi.Insights
			frame, err := v.AppendInsights(t.Context(), nil, p, math.MinInt64, limit)
			if err != nil || insights.Parse(frame) != nil || len(insights.Items) != wire.MaxInsights || !insights.History {
				t.Errorf("limit %d: %d insights, %v", limit, len(insights.Items), err)
			}
			var firings abi.Firings
			frame, err = v.AppendFirings(t.Context(), nil, p, 0, limit)
			if err != nil || firings.Parse(frame) != nil || len(firings.Items) != min(limit, wire.MaxFirings) || !firings.More {
				t.Errorf("limit %d: %d firings, %v", limit, len(firings.Items), err)
			}
			away = true // from the first answers on
		}
	})
}

// TestPlacesOutliveTexts: the texts of a principal are overwritten after its request, while other
// requests of the account still have their places.
func TestPlacesOutliveTexts(t *testing.T) {
	v := views{waiting: &places.Places[caller]{Each: maxWaiting}}
	s := newSubscriptions(Config{PlaceTimeout: time.Millisecond})
	for name, enter := range map[string]func(abi.Principal) (leave func(), err error){
		"views":         v.wait,
		"subscriptions": func(p abi.Principal) (func(), error) { return s.enter(context.Background(), p) },
	} {
		synctest.Test(t, func(t *testing.T) {
			places := func(account string) (taken []func()) {
				for {
					leave, err := enter(abi.Principal{AccountID: account})
					if err != nil {
						return taken
					}
					taken = append(taken, leave)
				}
			}
			reused := []byte("acc_1")
			first := places(unsafe.String(&reused[0], len(reused)))
			second := places("acc_2")
			copy(reused, "acc_3") // the next request
			if len(first) == 0 || len(second) != len(first) {
				t.Fatalf("%s: one account has %d places, another %d", name, len(first), len(second))
			}
			for _, leave := range append(first, second...) {
				leave()
			}
			for _, account := range []string{"acc_1", "acc_2", "acc_3"} {
				if taken := places(account); len(taken) != len(first) {
					t.Errorf("%s: %s has %d places then, want %d", name, account, len(taken), len(first))
				}
			}
		})
	}
}
