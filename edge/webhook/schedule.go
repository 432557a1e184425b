package webhook

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// NextTry returns when a delivery is tried again after its tries-th try failed with an
// answer's Retry-After, by a schedule or, where that is nil, the default one, with the
// default jitter. ok is false when its tries are used up.
func NextTry(schedule []time.Duration, tries int, now time.Time, retryAfter string) (at time.Time, ok bool) {
	c := Config{Schedule: schedule}
	c.fillSchedule()
	return c.next(tries, now, retryAfter)
}

// retryAfterMost is the longest Retry-After that is honoured.
const retryAfterMost = 10 * time.Minute

// A delivery to an endpoint that fails is dead once its try is late by giveUpAfter and the
// endpoint was not caught up with for giveUpBehind. One that hangs gets fewer tries than there
// are events, and would have ever more wait for it, until the log of all accounts could not be
// pruned.
const (
	giveUpAfter  = 3 * 24 * time.Hour
	giveUpBehind = 24 * time.Hour
)

func (c *Config) fillSchedule() {
	if c.Schedule == nil {
		c.Schedule = []time.Duration{5 * time.Second, 30 * time.Second, 180 * time.Second}
	}
	c.Jitter = cmp.Or(c.Jitter, 0.1)
}

// farthest returns for how long a delivery may wait at most: for its next try, or for the end
// of a lease.
func (c *Config) farthest() time.Duration {
	most := max(retryAfterMost, c.Lease)
	for _, delay := range c.Schedule {
		most = max(most, delay+time.Duration(c.Jitter*float64(delay)))
	}
	return most + time.Minute
}

// next returns when a delivery is tried again after its tries-th try failed with
// an answer's Retry-After. ok is false when its tries are used up.
func (c *Config) next(tries int, now time.Time, retryAfter string) (at time.Time, ok bool) {
	if tries > len(c.Schedule) {
		return time.Time{}, false
	}
	delay := c.Schedule[tries-1]
	if c.Jitter > 0 {
		delay += time.Duration((2*rand.Float64() - 1) * c.Jitter * float64(delay))
	}
	return now.Add(max(delay, min(parseRetryAfter(retryAfter, now), retryAfterMost))), true
}

// parseRetryAfter parses the header (RFC 9110, section 10.2.3): seconds or a
// date. Anything else, and a date that is past, is 0.
func parseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" || len(value) > 64 {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > 1<<31 {
			seconds = 1 << 31 // as for any longer time
		}
		return time.Duration(seconds) * time.Second
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(0, date.Sub(now))
}
