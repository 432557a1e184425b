package sandboxctl

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"partneredge/wasm/abi"
	"partneredge/wasm/fake"
	"partneredge/wasm/network"
)

// Controller executes commands on a Backend and its clock.
type Controller struct {
	Backend *fake.Backend
	Clock   *fake.Clock
	Account string // id of the account that a command without one is about
}

// Serve executes the commands that it reads from in and writes the answers to
// out. It returns nil at the end of in.
func (c Controller) Serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, MaxLine)
	answers := json.NewEncoder(out)
	for lines.Scan() {
		var answer Answer
		command, err := ReadCommand(bytes.NewReader(lines.Bytes()))
		if err == nil {
			answer, err = c.Do(command)
		}
		if err != nil {
			answer = Answer{Error: err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return fmt.Errorf("write answer: %w", err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read commands: %w", err)
	}
	return nil
}

// Do executes one command.
func (c Controller) Do(command Command) (a Answer, err error) {
	command.Account = cmp.Or(command.Account, c.Account)
	if command.Account != "" && !c.Backend.HasAccount(command.Account) {
		return a, fmt.Errorf("there is no account %q", command.Account)
	}
	switch command.Do {
	case "account":
		p := abi.Profile{AccountName: command.Name, Email: command.Email, FullName: command.Agent}
		if command.Live {
			p.Mode = "live"
		}
		a.ID = c.Backend.AddAccount(p).AccountID
	case "key":
		a.Key, err = c.addKey(command)
	case "rotate":
		a.Key, err = c.rotateKey(command.Key)
	case "revoke":
		key, err := c.Backend.Key(command.Key)
		if err != nil {
			return a, errors.New("there is no such key")
		}
		return a, c.Backend.RevokeKey(key.ID)
	case "insights":
		err = c.addInsights(command, &a)
	case "firings":
		err = c.addFirings(command, &a)
	case "contact":
		err = c.addContact(command, &a)
	case "deal":
		err = c.setDeal(command, &a)
	case "goal":
		err = c.setGoal(command, &a)
	case "leads":
		a.Leads = c.leads(command.Account)
	case "subscriptions":
		for _, s := range c.Backend.Subscriptions(command.Account) {
			a.Subscriptions = append(a.Subscriptions, Subscription{
				ID: s.ID, TargetURL: s.Target, Environment: string(s.Environment), Events: s.Events, Revoked: s.Revoked != 0,
				Secret: s.Secret, PreviousSecret: c.previous(s),
			})
		}
	case "rotate_secret":
		if a.Secret, err = c.Backend.RotateSecret(command.Account, command.ID, fake.Day); errors.Is(err, abi.CodeNotFound) {
			err = fmt.Errorf("there is no subscription %q", command.ID)
		}
	case "clock":
		if command.At.IsZero() {
			return a, errors.New("at is missing")
		}
		c.Clock.Set(command.At)
	case "advance":
		if command.Milliseconds == 0 {
			return a, errors.New("milliseconds is missing")
		}
		c.Clock.Advance(time.Duration(command.Milliseconds) * time.Millisecond)
	case "outage":
		c.Backend.SetOutage(command.On)
	default:
		err = fmt.Errorf("%q is no command: there are account, key, rotate, revoke, insights, firings, contact, deal, goal, leads, subscriptions, rotate_secret, clock, advance, outage", command.Do)
	}
	return a, err
}

// micros returns t in microseconds since the Unix epoch, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func (c Controller) addKey(command Command) (token string, err error) {
	k := abi.Key{
		AccountID: command.Account, Environment: abi.Environment(command.Environment),
		RateLimit: command.RateLimit,
	}
	if k.Environment != abi.EnvLive && k.Environment != abi.EnvTest {
		return "", fmt.Errorf("environment %q is neither live nor test", command.Environment)
	}
	for _, name := range command.Scopes {
		if abi.ScopeOf(name) == 0 && !abi.IsOwnScope(name) {
			return "", fmt.Errorf("%q is no scope", name)
		}
	}
	for _, text := range command.Allowlist {
		prefix, ok := network.Parse(text)
		if !ok {
			return "", fmt.Errorf("allowlist: %q is neither an address nor a network", text)
		}
		k.Allowlist = append(k.Allowlist, prefix.String())
	}
	k.Scopes, k.Own = abi.SplitScopes(command.Scopes)
	if command.State == Expired {
		k.Expires = c.Clock.Now() - 1
	}
	token, created := c.Backend.AddKey(k)
	switch command.State {
	case Active, Expired:
	case InGrace:
		_, err = c.Backend.RotateKey(created.ID, 7*fake.Day)
	case GraceExpired:
		_, err = c.Backend.RotateKey(created.ID, 0)
	case Revoked:
		err = c.Backend.RevokeKey(created.ID)
	default:
		err = fmt.Errorf("%q is no state of a key", command.State)
	}
	return token, err
}

// rotateKey makes the successor of a key, by the rules of the service.
func (c Controller) rotateKey(token string) (successor string, err error) {
	k, err := c.Backend.Key(token)
	switch {
	case err != nil:
		return "", errors.New("there is no such key")
	case k.Revoked != 0:
		return "", errors.New("the key is revoked")
	case k.Expires <= c.Clock.Now():
		return "", errors.New("the key has expired")
	case k.GraceUntil != 0:
		return "", errors.New("the key has been rotated")
	}
	return c.Backend.RotateKey(k.ID, 7*fake.Day)
}

func (c Controller) leads(account string) (list []Lead) {
	for _, l := range c.Backend.Leads(account) {
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
