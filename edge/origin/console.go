package origin

import (
	"net/http"
	"strings"
)

// Console is the pages for people, served below /console/. It uses the admin
// API as anybody does, with the token of who has logged in.
type Console interface {
	http.Handler
	// Close ends the answers that would go on for as long as a page is open. It
	// returns at once.
	Close()
}

// consolePath is below what the console is served.
const consolePath = "/console/"

// consoled serves the console's pages, and leaves all else to next.
func (a *admin) consoled(next http.Handler) http.Handler {
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
