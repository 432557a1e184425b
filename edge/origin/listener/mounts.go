package listener

import (
	"errors"
	"net/http"
	"strings"

	"partneredge/edge/origin/registry"
	"partneredge/store"
	"partneredge/store/central/audit"
)

// withRegistry serves the registry of releases, and leaves all else to next. A
// browser that knows the password sends it by itself, so a push that another site
// brings about is refused, as the console refuses such forms.
func (s *Server) withRegistry(next http.Handler) http.Handler {
	guarded := http.NewCrossOriginProtection()
	guarded.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		registry.Refuse(w, http.StatusForbidden, "DENIED", "this request comes from a page of another site")
	}))
	serve := guarded.Handler(http.HandlerFunc(s.serveRegistry))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, registry.Root) {
			next.ServeHTTP(w, r)
			return
		}
		r.Pattern = registry.Root // for metrics, which know routes and no paths
		serve.ServeHTTP(w, r)
	})
}

// serveRegistry lets viewers pull and operators push. Clients of registries send
// the token as they can: as the bearer's, or as a password, whatever the name.
func (s *Server) serveRegistry(w http.ResponseWriter, r *http.Request) {
	var actor store.Actor
	var err error
	if _, password, basic := r.BasicAuth(); basic {
		actor, err = s.holder(r, password)
	} else {
		actor, err = s.actor(r)
	}
	least := store.RoleOperator
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		least = store.RoleViewer
	}
	refused := new(refusal)
	switch {
	case errors.As(err, &refused):
		w.Header().Set("WWW-Authenticate", `Basic realm="admin"`)
		registry.Refuse(w, refused.status(), "UNAUTHORIZED", "give an admin token as the password: "+refused.Error())
	case err != nil:
		s.limited.Error("registry", "registry request failed", "method", r.Method, "err", err)
		registry.Refuse(w, http.StatusInternalServerError, "UNKNOWN", "a fault of the origin; safe to try again")
	case !actor.Role.May(least):
		registry.Refuse(w, http.StatusForbidden, "DENIED", "this needs the role "+string(least))
	default:
		s.registry.ServeHTTP(w, r.WithContext(audit.WithActor(r.Context(), actor)))
	}
}

// consolePath is below what the console is served.
const consolePath = "/console/"

// withConsole serves the console's pages, and leaves all else to next.
func (s *Server) withConsole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.console == nil:
			next.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, consolePath):
			r.Pattern = consolePath                            // for metrics, which know routes and no paths
			s.console.ServeHTTP(w, r.WithContext(r.Context())) // a copy: its own mux sets another
		case r.URL.Path+"/" == consolePath:
			http.Redirect(w, r, consolePath, http.StatusMovedPermanently)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
