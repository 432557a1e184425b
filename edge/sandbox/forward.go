package sandbox

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"partneredge/edge/backoff"
	"partneredge/edge/localwebhook"
	"partneredge/edge/output"
	"partneredge/edge/webhook"
	"partneredge/wasm/sandboxctl"
)

// forwarder posts a sandbox's events to one address in place of the subscriptions' own,
// signed with each subscription's secret and tried again by the service's schedule.
type forwarder struct {
	to       string
	schedule []time.Duration // nil: the service's
	poster   *localwebhook.Poster
	commands *sandboxctl.Client
	log      io.Writer

	ctx     context.Context // of the deliveries
	running sync.WaitGroup
	posting chan struct{} // holds one for each post under way
	writing sync.Mutex
}

// postsMost bounds the posts under way, as the sender does for one endpoint.
const postsMost = 8

func newForwarder(ctx context.Context, to string, schedule []time.Duration, commands *sandboxctl.Client, log io.Writer) *forwarder {
	return &forwarder{to: to, schedule: schedule, poster: localwebhook.NewPoster(), commands: commands, log: log, ctx: ctx, posting: make(chan struct{}, postsMost)}
}

// wait returns once the context has ended, and with it all deliveries.
func (f *forwarder) wait() {
	f.running.Wait()
	f.poster.Close()
}

// deliver begins to deliver events of an account.
func (f *forwarder) deliver(account string, events []sandboxctl.Event) {
	for _, e := range events {
		if len(e.Deliveries) == 0 {
			f.say("%s  %s  no live subscription has it, or the account is not live", e.Type, e.ID)
		}
		for _, d := range e.Deliveries {
			m := webhook.Message{EventID: e.ID, EventType: e.Type, Body: e.Body}
			f.running.Go(func() { f.run(account, m, d) })
		}
	}
}

// run tries one delivery until it is acknowledged, given up, or its subscription is
// revoked. Each try is signed with the secrets that the subscription has then.
func (f *forwarder) run(account string, m webhook.Message, d sandboxctl.Delivery) {
	for tries := 1; ; tries++ {
		done := f.try(m, d)
		if f.ctx.Err() != nil {
			return
		}
		said := fmt.Sprintf("%s  %s  %s  try %d: ", m.EventType, m.EventID, d.Subscription, tries)
		if done.Status != nil {
			said += fmt.Sprintf("%d in %.0f ms", *done.Status, done.Milliseconds())
		} else {
			said += output.Plain(done.Error)
		}
		if done.OK() {
			f.say("%s", said)
			return
		}
		at, again := webhook.NextTry(f.schedule, tries, time.Now(), done.RetryAfter)
		if !again {
			f.say("%s, given up", said)
			return
		}
		f.say("%s, again in %s", said, time.Until(at).Round(100*time.Millisecond))
		if backoff.Pause(f.ctx, time.Until(at)) != nil {
			return
		}
		switch now, known := f.subscription(account, d.Subscription); {
		case now.Revoked:
			f.say("%s  %s  %s is revoked", m.EventType, m.EventID, d.Subscription)
			return
		case known:
			d.Secret, d.PreviousSecret = now.Secret, now.PreviousSecret
		}
	}
}

func (f *forwarder) try(m webhook.Message, d sandboxctl.Delivery) localwebhook.Outcome {
	select {
	case f.posting <- struct{}{}:
		defer func() { <-f.posting }()
	case <-f.ctx.Done():
		return localwebhook.Outcome{}
	}
	return f.poster.Post(f.ctx, f.to, localwebhook.NewTry(m, time.Now(), d.Secret, d.PreviousSecret))
}

// subscription returns what a subscription is now, if that is known.
func (f *forwarder) subscription(account, id string) (now sandboxctl.Subscription, known bool) {
	answer, err := f.commands.Do(sandboxctl.Command{Do: "subscriptions", Account: account})
	i := slices.IndexFunc(answer.Subscriptions, func(s sandboxctl.Subscription) bool { return s.ID == id })
	if err != nil || i < 0 {
		return now, false
	}
	return answer.Subscriptions[i], true
}

func (f *forwarder) say(format string, args ...any) {
	f.writing.Lock()
	defer f.writing.Unlock()
	fmt.Fprintf(f.log, time.Now().Format(time.TimeOnly)+"  "+format+"\n", args...)
}
