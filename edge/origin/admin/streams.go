package admin

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/origin/admin/input"
	"partneredge/store"
	"partneredge/store/central/audit"
	"partneredge/wasm/typeid"
)

// Times and bounds of streams.
const (
	maxStreams   = 64
	streamsOfOne = maxStreams / 2   // of one actor, so that nobody takes all of them
	streamBeat   = recheckEvery     // between two signs of life
	streamMost   = 10 * time.Minute // then the client asks again
	streamWrite  = 10 * time.Second // for one write
	retryStreams = 5 * time.Second  // until a place may be free
)

// message is one server-sent event (WHATWG HTML, 9.2). Data holds no line ends.
type message struct {
	id, name string // "": none
	data     []byte // nil: none, and the client keeps the id alone
}

// stream is a body that goes on until ctx ends, or what it tells of does. send
// reports that the client is gone.
type stream func(ctx context.Context, send func(...message) error) error

// placed is a stream that has a place, which leave frees.
type placed struct {
	stream
	leave func()
}

// streamed answers with a stream, once there is a place for it. ?seconds bounds
// how long it goes on.
func (a *api) streamed(r *http.Request, s stream) (answer, error) {
	last := streamMost
	if text := r.URL.Query().Get("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || time.Duration(n)*time.Second > streamMost {
			return answer{}, &input.Problem{Kind: input.KindParameter, Reason: "seconds_invalid", Detail: "seconds must be from 1 to 600"}
		}
		last = time.Duration(n) * time.Second
	}
	actor, _ := audit.ActorOf(r.Context())
	leave, free := a.streams.Take(actor.ID)
	if !free {
		return answer{}, &input.Problem{Kind: input.KindLimited, Detail: "too many streams", RetryAfter: retryStreams}
	}
	return ok(placed{leave: leave, stream: func(ctx context.Context, send func(...message) error) error {
		ctx, cancel := context.WithTimeout(ctx, last)
		defer cancel()
		stop := context.AfterFunc(a.running, cancel) // a listener that ends waits for its streams
		defer stop()
		return s(ctx, send)
	}}, nil)
}

// writeStream sends a stream, and frees its place.
func (a *api) writeStream(w http.ResponseWriter, r *http.Request, s placed) {
	defer s.leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // of proxies
	control := http.NewResponseController(w)
	send := func(all ...message) error {
		var b bytes.Buffer
		for _, m := range all {
			if m.id != "" {
				b.WriteString("id: " + m.id + "\n")
			}
			if m.name != "" {
				b.WriteString("event: " + m.name + "\n")
			}
			if m.data != nil {
				b.WriteString("data: ")
				b.Write(m.data)
				b.WriteString("\n")
			}
			b.WriteString("\n")
		}
		if len(all) == 0 {
			b.WriteString(":\n\n") // a comment: a sign of life
			if err := a.recheck(r); err != nil {
				return err // the token was revoked
			}
		}
		if err := control.SetWriteDeadline(time.Now().Add(streamWrite)); err != nil {
			return err
		}
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
		return control.Flush()
	}
	if err := send(); err != nil { // the header, at once
		return
	}
	if err := s.stream(r.Context(), send); err != nil && r.Context().Err() == nil {
		a.Log.Debug("a stream ended", "route", r.Pattern, "err", err)
	}
}

// Times and sizes of the stream of events.
const (
	eventPoll = 200 * time.Millisecond
	// eventPollShared is eventPoll on PostgreSQL, where each poll looks into all partitions of
	// the log: a clock that was put back may have written to any.
	eventPollShared = time.Second

	eventPage   = 200
	eventOldest = time.Hour
	// eventSlack is how far apart the clocks of origin and client may be.
	eventSlack = time.Minute
)

// streamEvents streams the events of an account as they come in, silenced ones
// as well, each with the envelope that a webhook delivers. ?since begins in the
// past; Last-Event-ID goes on from an event, wherever ?since began.
func (a *api) streamEvents(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	if _, err := a.DB.Account(r.Context(), id); err != nil {
		return answer{}, err
	}
	query := r.URL.Query()
	s := eventReader{a: a, account: id}
	v := input.Validator{Kind: input.KindParameter}
	if query.Has("types") {
		s.types = v.Each("types", strings.Split(query.Get("types"), ","), adminapi.EventTypes()...)
	}
	var from time.Time // zero: now
	last := r.Header.Get("Last-Event-ID")
	if query.Has("since") {
		since := query.Get("since")
		from = v.Time("since", &since)
		// A client that connects again repeats its since, which grows old meanwhile.
		if last == "" && v.Err() == nil && from.Before(a.DB.Now().Add(-eventOldest-eventSlack)) {
			v.Fail("since", "too_old", "since goes back an hour at most")
		}
	}
	if err := v.Err(); err != nil {
		return answer{}, err
	}
	var err error
	switch {
	case last != "":
		err = s.goOn(r.Context(), last)
	case from.IsZero():
		s.position, err = a.DB.NewestEventPosition(r.Context(), id)
	default:
		s.position, err = a.DB.EventPositionBefore(r.Context(), id, from)
	}
	if err != nil {
		return answer{}, err
	}
	return a.streamed(r, s.run)
}

// goOn begins behind the event that was read last, or at the position or the time where a
// stream began that had none; an hour ago at the earliest.
func (s *eventReader) goOn(ctx context.Context, last string) error {
	oldest := s.a.DB.Now().Add(-eventOldest)
	position, err := s.a.DB.EventPosition(ctx, s.account, last)
	if errors.Is(err, store.ErrNotFound) {
		position, err = s.began(ctx, last, oldest)
	}
	if err != nil {
		return err
	}
	next, _, err := s.a.DB.EventsAfter(ctx, s.account, position, 1)
	if err == nil && len(next) > 0 && next[0].CreatedAt.Before(oldest) {
		var late int64
		late, err = s.a.DB.EventPositionBefore(ctx, s.account, oldest)
		position = max(position, late)
	}
	s.position = position
	return err
}

// began returns the position for a Last-Event-ID that is no event of the account: the number of
// a position, which a stream sends when it begins, or a time, where one before oldest counts as
// oldest. The identifier of an event that the database has lost, as after a failover or a
// restore, counts as a time shortly before its own: the events after it may be of a clock that
// is behind. One of another account cannot be told from it.
func (s *eventReader) began(ctx context.Context, last string, oldest time.Time) (int64, error) {
	at, err := time.Parse(time.RFC3339, last)
	if milli, dated := typeid.UnixMilli(last); dated && strings.HasPrefix(last, "evt_") {
		at, err = time.UnixMilli(milli).Add(-eventSlack), nil
	}
	if err == nil {
		if at.Before(oldest) {
			at = oldest
		}
		return s.a.DB.EventPositionBefore(ctx, s.account, at)
	}
	position, err := strconv.ParseInt(last, 10, 64)
	if err != nil || position < 0 {
		return 0, &input.Problem{Kind: input.KindParameter, Reason: "last_event_id_invalid", Detail: "Last-Event-ID is neither an event of the account nor a place or a time"}
	}
	newest, err := s.a.DB.NewestEventPosition(ctx, s.account)
	return min(position, newest), err // of a database that was put back since
}

// eventReader reads the events of an account that a client was not sent yet.
type eventReader struct {
	a        *api
	account  string
	types    []string // none: all
	position int64    // behind which they come in
}

func (s *eventReader) run(ctx context.Context, send func(...message) error) error {
	if err := send(message{id: strconv.FormatInt(s.position, 10)}); err != nil {
		return err
	}
	every := eventPoll
	if s.a.DB.Kind() == "postgres" {
		every = eventPollShared
	}
	poll, beat := time.Tick(every), time.Tick(streamBeat)
	for {
		if err := s.sendFresh(ctx, send); err != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-beat:
			if err := send(); err != nil {
				return err
			}
		case <-poll:
		}
	}
}

// sendFresh sends what was not sent yet, page by page, and nothing once ctx has ended.
func (s *eventReader) sendFresh(ctx context.Context, send func(...message) error) error {
	for {
		events, last, err := s.a.DB.EventsAfter(ctx, s.account, s.position, eventPage)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		s.position = last
		var fresh []message
		for _, e := range events {
			if len(s.types) == 0 || slices.Contains(s.types, e.Type) {
				fresh = append(fresh, message{id: e.ID, name: e.Type, data: e.Body})
			}
		}
		if len(fresh) > 0 {
			if err := send(fresh...); err != nil {
				return err
			}
		}
		if len(events) < eventPage {
			return nil
		}
	}
}
