package admin

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/store"
	"partneredge/store/central"
)

// lines is a body of JSON values, one a line, that may be of any length. It ends with
// ctx. An error before any of it is sent is answered as that of any request.
type lines func(ctx context.Context, line func(any) error) error

// linesWrite bounds the time that a client takes for one write of lines.
const linesWrite = 30 * time.Second

// exportAccount streams all that is kept of an account, and last how much it was, so
// that a reader knows that nothing is missing.
func (a *api) exportAccount(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	if _, err := a.DB.Account(r.Context(), id); err != nil {
		return answer{}, err
	}
	return ok(lines(func(ctx context.Context, line func(any) error) error {
		end := adminapi.ExportEnd{Counts: make(map[string]int64)}
		err := a.DB.ExportAccount(ctx, id, func(record any) error {
			kind, shown, err := a.exported(ctx, record)
			if err != nil {
				return err
			}
			end.Counts[kind]++
			return line(adminapi.Exported[any]{Kind: kind, Record: shown})
		})
		if err != nil {
			return err
		}
		return line(adminapi.Exported[any]{Kind: adminapi.ExportedEnd, Record: end})
	}), nil)
}

// exported returns the kind of a record of an export, and its JSON type.
func (a *api) exported(ctx context.Context, record any) (kind string, shown any, err error) {
	switch r := record.(type) {
	case store.Account:
		return "account", toAccount(r), nil
	case store.Key:
		shown, err := a.withUse(ctx, r)
		if err != nil {
			return "", nil, err
		}
		return "key", shown[0], nil
	case store.Subscription:
		return "subscription", a.toWebhook(r), nil
	case store.Lead:
		return "lead", toLead(r), nil
	case store.QuarantinedLead:
		return "quarantined_lead", toQuarantinedWithBody(r), nil
	case store.Contact:
		return "contact", toContact(r, nil), nil
	case store.Insight:
		return "insight", toInsight(r), nil
	case store.Firing:
		return "firing", toFiring(r, nil), nil
	case store.Deal:
		return "deal", toDeal(r, nil), nil
	case store.Goal:
		return "goal", toGoal(r, nil), nil
	case store.Event:
		return "event", r.Body, nil
	case central.LoggedDelivery:
		return "delivery", toDelivery(r.Delivery, r.Attempts), nil
	}
	return "", nil, fmt.Errorf("an export has a record of type %T", record)
}

// writeLines sends lines as they are made. An error before any of them is sent is
// answered as that of any request. What cannot be sent to its end is cut, so that no
// client takes it for whole.
func (a *api) writeLines(w http.ResponseWriter, r *http.Request, body lines) {
	sent := newDeadlined(w, http.StatusOK, "application/x-ndjson")
	out := bufio.NewWriterSize(sent, 64<<10)
	err := body(r.Context(), func(v any) error {
		text, err := encode(v)
		if err == nil {
			_, err = out.Write(append(text, '\n'))
		}
		return err
	})
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
	case !sent.begun:
		a.refuse(w, r, err)
	default:
		a.Log.Warn("an export was cut short", "route", r.Pattern, "err", err)
		panic(http.ErrAbortHandler)
	}
}

// deadlined gives the client linesWrite for each write, in place of one time for all.
type deadlined struct {
	http.ResponseWriter
	control *http.ResponseController
	status  int
	kind    string // the content type
	begun   bool
}

func newDeadlined(w http.ResponseWriter, status int, kind string) *deadlined {
	return &deadlined{ResponseWriter: w, control: http.NewResponseController(w), status: status, kind: kind}
}

func (d *deadlined) Write(b []byte) (int, error) {
	if err := d.control.SetWriteDeadline(time.Now().Add(linesWrite)); err != nil {
		return 0, err
	}
	if !d.begun {
		h := d.Header()
		h.Set("Content-Type", d.kind)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		d.WriteHeader(d.status)
		d.begun = true
	}
	return d.ResponseWriter.Write(b)
}
