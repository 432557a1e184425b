package deliveries

import "sync/atomic"

var ZZ struct{ Calls, N, Endpoints, Claims, Claimed, Flush, Made atomic.Int64 }
