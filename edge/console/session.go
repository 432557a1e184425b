package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of sessions, which are in memory only.
const (
	maxSessions = 256
	idleTime    = time.Hour
	sessionTime = 12 * time.Hour
)

const (
	sessionCookie = "console"
	loginCookie   = "console_login"
)

// session is somebody who has logged in.
type session struct {
	id, token string
	who       who
	csrf      string
	began     time.Time

	used time.Time // guarded by sessions.mu, as is notice
	// notice is shown on the next page, once.
	notice *notice
}

// notice is what came of a form.
type notice struct {
	Text   string
	Failed bool
	// Secret is shown once, with what it is.
	Secret, SecretName string
}

type sessions struct {
	now func() time.Time
	key [32]byte // signs login forms

	mu sync.Mutex
	by map[string]*session
}

func newSessions(now func() time.Time) *sessions {
	s := &sessions{now: now, by: make(map[string]*session)}
	_, _ = rand.Read(s.key[:]) // never fails: crypto/rand ends the program instead
	return s
}

func randomText() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // as above
	return hex.EncodeToString(random[:])
}

// open begins a session, in place of the one longest unused when there are too
// many.
func (s *sessions) open(token string, w who) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	var oldest *session
	for id, one := range s.by {
		if s.over(one, now) {
			delete(s.by, id)
		} else if oldest == nil || one.used.Before(oldest.used) {
			oldest = one
		}
	}
	if len(s.by) >= maxSessions {
		delete(s.by, oldest.id)
	}
	one := &session{id: randomText(), token: token, who: w, csrf: randomText(), began: now, used: now}
	s.by[one.id] = one
	return one
}

func (s *sessions) over(one *session, now time.Time) bool {
	return now.Sub(one.used) > idleTime || now.Sub(one.began) > sessionTime
}

// of is the session of a request, nil when it has none. A request that the page
// makes by itself does not count as use.
func (s *sessions) of(r *http.Request, counts bool) *session {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.by[cookie.Value]
	now := s.now()
	if one == nil || s.over(one, now) {
		delete(s.by, cookie.Value)
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
	delete(s.by, one.id)
}

// tell keeps a notice for the session's next page.
func (s *sessions) tell(one *session, n notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.notice = &n
}

// told is the notice, which is then gone.
func (s *sessions) told(one *session) *notice {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := one.notice
	one.notice = nil
	return n
}

// sign makes the form field that goes with a login cookie.
func (s *sessions) sign(cookie string) string {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte(cookie))
	return hex.EncodeToString(mac.Sum(nil))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// setCookie sets a cookie of the console, which ends with the browser; value ""
// removes it.
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

// byHTTPS tells whether the browser came by HTTPS: to this process, or to a proxy
// that may say so.
func (c *Console) byHTTPS(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap().WithZone("")
	trusted := slices.ContainsFunc(c.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
	said := strings.Split(strings.Join(r.Header["X-Forwarded-Proto"], ","), ",")
	return trusted && strings.EqualFold(strings.TrimSpace(said[len(said)-1]), "https") // the last is the nearest proxy's own
}
