package console

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"partneredge/edge/adminapi"
	"partneredge/edge/proxies"
)

// Bounds of sessions, which are in memory only.
const (
	maxSessions = 256
	idleTime    = time.Hour
	sessionTime = 12 * time.Hour
	maxNotices  = 16 // of one session
)

const (
	sessionCookie = "console"
	loginCookie   = "console_login"
)

// session belongs to a browser that has logged in.
type session struct {
	id, token string
	who       adminapi.Whoami
	csrf      string // in every form of the session's pages
	began     time.Time
	downloads atomic.Bool // one is under way

	// Guarded by sessions.mu:
	used    time.Time
	notices []notice // shown on the next page, once, the oldest first
}

// notice holds the outcome of a form, to be shown on the next page.
type notice struct {
	Text               string
	Failed             bool
	Secret, SecretName string     // shown once
	Form               url.Values // of a form that failed, to be filled in again
}

type sessions struct {
	now func() time.Time
	key [32]byte // signs login forms

	mu   sync.Mutex
	byID map[string]*session
}

func newSessions(now func() time.Time) *sessions {
	s := &sessions{now: now, byID: make(map[string]*session)}
	_, _ = rand.Read(s.key[:]) // never fails: crypto/rand ends the program instead
	return s
}

// open begins a session. When there are too many it ends one.
func (s *sessions) open(token string, who adminapi.Whoami) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for id, one := range s.byID {
		if s.expired(one, now) {
			delete(s.byID, id)
		}
	}
	if len(s.byID) >= maxSessions {
		delete(s.byID, s.spare().id)
	}
	one := &session{id: rand.Text(), token: token, who: who, csrf: rand.Text(), began: now, used: now}
	s.byID[one.id] = one
	return one
}

// spare returns the session that is unused for longest of those of whoever has the most: who
// logs in again and again ends nobody else's. mu is held.
func (s *sessions) spare() (spare *session) {
	of := make(map[string]int)
	for _, one := range s.byID {
		of[one.who.ID]++
	}
	for _, one := range s.byID {
		if spare == nil || cmp.Or(of[spare.who.ID]-of[one.who.ID], one.used.Compare(spare.used)) < 0 {
			spare = one
		}
	}
	return spare
}

func (s *sessions) expired(one *session, now time.Time) bool {
	return now.Sub(one.used) > idleTime || now.Sub(one.began) > sessionTime
}

// find returns the session of a request, nil when it has none. A request that the
// page makes by itself does not count as use.
func (s *sessions) find(r *http.Request, counts bool) *session {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byID[cookie.Value]
	now := s.now()
	if one == nil || s.expired(one, now) {
		delete(s.byID, cookie.Value)
		return nil
	}
	if counts {
		one.used = now
	}
	return one
}

func (s *sessions) close(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, one.id)
}

// addNotice keeps a notice for the session's next page, beside those that no page has shown
// yet: one of them may hold a secret. The values of earlier forms are forgotten, since they
// are large. When there are too many notices, the oldest without a secret is dropped.
func (s *sessions) addNotice(one *session, n notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range one.notices {
		one.notices[i].Form = nil
	}
	if len(one.notices) >= maxNotices {
		drop := max(0, slices.IndexFunc(one.notices, func(n notice) bool { return n.Secret == "" }))
		one.notices = slices.Delete(one.notices, drop, drop+1)
	}
	one.notices = append(one.notices, n)
}

// takeNotices returns the notices and removes them from the session.
func (s *sessions) takeNotices(one *session) []notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := one.notices
	one.notices = nil
	return n
}

// sign returns the form field that belongs to a login cookie.
func (s *sessions) sign(cookie string) string {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte(cookie))
	return hex.EncodeToString(mac.Sum(nil))
}

// equal compares secrets in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// setCookie sets a cookie of the console until the browser is closed. The value
// "" removes the cookie.
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, name, value string) {
	cookie := &http.Cookie{
		Name: name, Value: value, Path: Path, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: c.byHTTPS(r),
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// byHTTPS reports whether the browser used HTTPS, with this process or with a
// trusted proxy.
func (c *Console) byHTTPS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	protos := strings.Split(strings.Join(r.Header["X-Forwarded-Proto"], ","), ",")
	return c.cfg.Proxies.Has(proxies.Peer(r)) && strings.EqualFold(strings.TrimSpace(protos[len(protos)-1]), "https") // the last is the nearest proxy's own
}
