package command

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"testing"

	"partneredge/wasm/contract"
)

// secretSet gathers what a log must never hold: keys, tokens, signing secrets, and
// what leads are made of.
type secretSet struct {
	mu  sync.Mutex
	all map[string]bool
}

func newSecrets(d *devProcess) *secretSet {
	s := &secretSet{all: map[string]bool{}}
	s.add(d.origin.Token(), d.account.Keys.Live, d.account.Keys.Test)
	return s
}

// add takes texts that are long enough to be found by no accident.
func (s *secretSet) add(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		if len(text) >= 6 {
			s.all[text] = true
		}
	}
}

// observe takes the secrets of one exchange: whatever stood in Authorization,
// each text of a lead, the secret of a subscription.
func (s *secretSet) observe(x contract.Exchange) {
	for _, value := range x.Request.Header["Authorization"] {
		for field := range strings.FieldsSeq(value) {
			if strings.HasPrefix(field, "svc_") {
				s.add(strings.TrimSuffix(field, ","))
			}
		}
	}
	s.add(signingSecret.FindAllString(string(x.ResponseBody), -1)...)
	if strings.HasSuffix(x.Request.URL.Path, "/leads") {
		var lead any
		if json.Unmarshal(x.RequestBody, &lead) == nil {
			s.add(texts(lead)...)
		}
	}
}

var (
	signingSecret = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	nkeySeed      = regexp.MustCompile(`\bSU[A-Z2-7]{56}\b`)
)

// texts are all strings in a JSON value, but for those that say nothing of a
// person.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		switch v {
		case "express_written", "inbound_initiated", "express", "unknown":
			return nil
		}
		return []string{v}
	case []any:
		for _, item := range v {
			all = append(all, texts(item)...)
		}
	case map[string]any:
		for _, item := range v {
			all = append(all, texts(item)...)
		}
	}
	return all
}

// check fails for each secret that is in the log.
func (s *secretSet) check(t *testing.T, log string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) < 100 || len(log) < 1000 {
		t.Errorf("%d secrets and %d bytes of log: too little to tell", len(s.all), len(log))
	}
	for secret := range s.all {
		if at := strings.Index(log, secret); at >= 0 {
			line := log[strings.LastIndex(log[:at], "\n")+1:]
			line, _, _ = strings.Cut(line, "\n")
			t.Errorf("the log holds a secret (%q): %s", secret, line)
		}
	}
}
