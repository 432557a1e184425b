package authoring

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"partneredge/host"
	"partneredge/wasm/abi"
)

// usage notes what a module asks its host for, what it is refused, and what it logs first.
type usage struct {
	mu      sync.Mutex
	asked   map[abi.Capability]bool
	refused []string
	logged  []string
}

// mostLogged bounds the lines of a module's log that usage keeps. A panic has its reason and its
// place in the first ones.
const mostLogged = 5

func (u *usage) note(c abi.Capability) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.asked == nil {
		u.asked = map[abi.Capability]bool{}
	}
	u.asked[c] = true
}

func (u *usage) has(c abi.Capability) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asked[c]
}

// refusals returns what the module was refused.
func (u *usage) refusals() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.refused...)
}

// explain adds to the error of a module what it has logged.
func (u *usage) explain(err error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.logged) == 0 {
		return err
	}
	return fmt.Errorf("%w; it logged: %s", err, strings.Join(u.logged, "; "))
}

// watch returns capabilities that note each use.
func (u *usage) watch(c host.Capabilities) host.Capabilities {
	return host.Capabilities{Views: watchedViews{c.Views, u}, Subscriptions: watchedSubscriptions{c.Subscriptions, u}, Outbox: watchedOutbox{c.Outbox, u}}
}

type watchedViews struct {
	host.Views
	*usage
}

func (w watchedViews) AppendProfile(ctx context.Context, dst []byte, p abi.Principal) ([]byte, error) {
	w.note(abi.Views)
	return w.Views.AppendProfile(ctx, dst, p)
}

func (w watchedViews) AppendInsights(ctx context.Context, dst []byte, p abi.Principal, since int64, limit int) ([]byte, error) {
	w.note(abi.Views)
	return w.Views.AppendInsights(ctx, dst, p, since, limit)
}

func (w watchedViews) AppendFirings(ctx context.Context, dst []byte, p abi.Principal, before int64, limit int) ([]byte, error) {
	w.note(abi.Views)
	return w.Views.AppendFirings(ctx, dst, p, before, limit)
}

type watchedSubscriptions struct {
	host.Subscriptions
	*usage
}

func (w watchedSubscriptions) Subscribe(ctx context.Context, p abi.Principal, s *abi.Subscription) (string, error) {
	w.note(abi.Subscriptions)
	return w.Subscriptions.Subscribe(ctx, p, s)
}

func (w watchedSubscriptions) SubscribeOnce(ctx context.Context, p abi.Principal, once *abi.SubscribeOnce) (abi.Subscribed, error) {
	w.note(abi.Subscriptions)
	return w.Subscriptions.SubscribeOnce(ctx, p, once)
}

func (w watchedSubscriptions) Revoke(ctx context.Context, p abi.Principal, id string) (bool, error) {
	w.note(abi.Subscriptions)
	return w.Subscriptions.Revoke(ctx, p, id)
}

type watchedOutbox struct {
	host.Outbox
	*usage
}

func (w watchedOutbox) AppendLead(ctx context.Context, p abi.Principal, frame []byte) error {
	w.note(abi.Outbox)
	return w.Outbox.AppendLead(ctx, p, frame)
}

func (w watchedOutbox) LeadOnce(ctx context.Context, p abi.Principal, once *abi.Once) (abi.Kept, error) {
	w.note(abi.Outbox)
	return w.Outbox.LeadOnce(ctx, p, once)
}

// record returns a handler that notes the host's records of refusals and the module's
// warnings and errors, and passes all on to next.
func (u *usage) record(next slog.Handler) slog.Handler { return &usageHandler{next, u} }

type usageHandler struct {
	slog.Handler
	usage *usage
}

// Enabled implements slog.Handler: refusals are logged as warnings.
func (h *usageHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *usageHandler) Handle(ctx context.Context, r slog.Record) error {
	h.usage.noteRecord(r)
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *usageHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &usageHandler{h.Handler.WithAttrs(attrs), h.usage}
}

// WithGroup implements slog.Handler.
func (h *usageHandler) WithGroup(name string) slog.Handler {
	return &usageHandler{h.Handler.WithGroup(name), h.usage}
}

func (u *usage) noteRecord(r slog.Record) {
	values := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = strings.TrimSpace(a.Value.String())
		return true
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	if text := refusal(r.Message, values); text != "" {
		u.refused = append(u.refused, text)
	}
	if text := values["text"]; text != "" && r.Level >= slog.LevelWarn && len(u.logged) < mostLogged {
		u.logged = append(u.logged, text) // "module log" and "module output"
	}
}

// refusal returns what a record of the host says that a module was refused, "" if it
// is no such record.
func refusal(message string, values map[string]string) string {
	switch message {
	case "module refused a capability":
		if values["capability"] == "" {
			return "operation " + values["op"] + ", which this host does not know"
		}
		return "operation " + values["op"] + ", which needs the capability " + values["capability"]
	case "module refused a connection":
		text := "a connection"
		if values["target"] != "" {
			text += " to " + values["target"]
		}
		return text + ": " + values["reason"]
	}
	return ""
}
