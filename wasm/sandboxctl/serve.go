package sandboxctl

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
)

// Serve does what commands say until in ends. clock is the world's clock. It
// returns nil at the end of in.
func Serve(in io.Reader, out io.Writer, world *fake.Backend, clock *Clock) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MaxLine)
	s := server{world, clock}
	for lines.Scan() {
		var c Command
		var answer Answer
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil {
			answer, err = s.do(&c)
		}
		if err != nil {
			answer = Answer{Error: err.Error()}
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read commands: %w", err)
	}
	return nil
}

type server struct {
	world *fake.Backend
	clock *Clock
}

func (s *server) do(c *Command) (a Answer, err error) {
	switch c.Do {
	case "account":
		p := abi.Profile{AccountName: c.Name, Email: c.Email, FullName: c.Agent, Mode: "setup"}
		if c.Live {
			p.Mode = "live"
		}
		a.ID = s.world.AddAccount(p).AccountID
	case "key":
		a.Key, err = s.key(c)
	case "revoke":
		var key abi.Key
		if key, err = s.world.Key(c.Key); err == nil {
			err = s.world.RevokeKey(key.ID)
		}
	case "insights":
		for _, it := range c.Insights {
			if _, err = s.world.AddInsight(c.Account, abi.Insight{Headline: it.Headline, Detail: it.Detail, Created: micros(it.Created)}); err != nil {
				break
			}
		}
	case "firings":
		for _, it := range c.Firings {
			if _, err = s.world.AddFiring(c.Account, abi.Firing{Name: it.Name, Action: it.Action, Triggered: micros(it.Triggered), Data: it.Data}); err != nil {
				break
			}
		}
	case "leads":
		a.Leads = s.leads(c.Account)
	case "subscriptions":
		a.Subscriptions = s.subscriptions(c.Account)
	case "clock":
		if c.At.IsZero() {
			return a, errors.New("at is missing")
		}
		s.clock.Set(c.At)
	case "advance":
		s.clock.Advance(time.Duration(c.Milliseconds) * time.Millisecond)
	case "outage":
		s.outage(c.On)
	default:
		err = fmt.Errorf("%q is no command", c.Do)
	}
	return a, err
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func (s *server) key(c *Command) (token string, err error) {
	k := abi.Key{AccountID: c.Account, RateLimit: c.RateLimit, Allowlist: c.Allowlist}
	switch c.Environment {
	case "live", "test":
		k.Environment = abi.Environment(c.Environment)
	default:
		return "", fmt.Errorf("environment %q is neither live nor test", c.Environment)
	}
	for _, name := range c.Scopes {
		switch name {
		case "read:agent":
			k.Scopes |= abi.ReadAgent
		case "read:coaching":
			k.Scopes |= abi.ReadCoaching
		case "read:sentinels":
			k.Scopes |= abi.ReadSentinels
		case "write:webhooks":
			k.Scopes |= abi.WriteWebhooks
		case "write:leads":
			k.Scopes |= abi.WriteLeads
		default:
			return "", fmt.Errorf("%q is no scope", name)
		}
	}
	if c.State == Expired {
		k.Expires = s.clock.Now() - 1
	}
	token, made := s.world.AddKey(k)
	switch c.State {
	case Active, Expired:
	case InGrace:
		_, err = s.world.RotateKey(made.ID, 7*fake.Day)
	case GraceExpired:
		_, err = s.world.RotateKey(made.ID, 0)
	case Revoked:
		err = s.world.RevokeKey(made.ID)
	default:
		err = fmt.Errorf("%q is no state of a key", c.State)
	}
	return token, err
}

func (s *server) leads(account string) (list []Lead) {
	for _, l := range s.world.Leads(account) {
		kept := Lead{
			ID: l.ID, FirstName: l.FirstName, LastName: l.LastName, Email: l.Email, Phone: l.Phone,
			ConsentStatus: l.ConsentStatus, ConsentText: l.ConsentText, Environment: string(l.Environment),
		}
		if l.Captured != 0 {
			kept.Captured = time.UnixMicro(l.Captured).UTC()
		}
		list = append(list, kept)
	}
	return list
}

func (s *server) subscriptions(account string) (list []Subscription) {
	for _, it := range s.world.Subscriptions(account) {
		list = append(list, Subscription{
			ID: it.ID, TargetURL: it.Target, Environment: string(it.Environment), Events: it.Events, Revoked: it.Revoked != 0,
		})
	}
	return list
}

// outage breaks all that needs the origin, but for the keys that there are: a
// world holds every key, as a node holds those in use.
func (s *server) outage(on bool) {
	code := abi.Code(0)
	if on {
		code = abi.CodeUnavailable
	}
	for _, op := range []abi.Op{abi.OpProfile, abi.OpInsights, abi.OpFirings, abi.OpSubscribe, abi.OpRevoke} {
		s.world.Break(op, code)
	}
	s.world.Isolate(on)
}
