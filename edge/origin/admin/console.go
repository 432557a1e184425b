package admin

import (
	"net/http"
	"strings"
)

// consolePath is below what the console is served.
const consolePath = "/console/"

// consoled serves the console's pages, and leaves all else to next.
func (a *api) consoled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case a.console == nil:
			next.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, consolePath):
			r.Pattern = consolePath                            // for metrics, which know routes and no paths
			a.console.ServeHTTP(w, r.WithContext(r.Context())) // a copy: its own mux sets another
		case r.URL.Path+"/" == consolePath:
			http.Redirect(w, r, consolePath, http.StatusMovedPermanently)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
