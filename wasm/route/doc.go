// Package route holds the endpoints of a release: which method and path lead to which
// module, and which scope a key must have for it.
//
// Each module's manifest declares its routes:
//
//	"routes": [
//	  {"method": "GET", "path": "/api/v2/public/quotes", "scope": "x:quotes"},
//	  {"method": "GET", "path": "/api/v2/public/quotes/{id}", "scope": "x:quotes"}
//	]
//
// A segment {name} matches one segment that is not empty, and its value is that segment
// percent-decoded. Literals match as they were sent. A path that ends in a
// slash is another one than without. Of several paths that match a request the narrower
// one counts, which has literals where the other has parameters: quotes/today before
// quotes/{id}. It counts for every method, so where only GET quotes/{id} and POST
// quotes/today exist, GET quotes/today is 405.
//
// Check is for whoever packs or opens a release, and New and Table.Find for a gate,
// which makes its table while its image is made. The gate would be a third larger with
// package fmt in it, so errors are put together without.
package route
