package store

import "time"

// Day is a day in UTC: days since the Unix epoch.
type Day int64

// DayOf returns the day in which a time lies.
func DayOf(t time.Time) Day {
	s := t.Unix()
	d := s / 86400
	if s%86400 < 0 {
		d--
	}
	return Day(d)
}

// Start returns the first moment of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String returns the day as 2006-01-02.
func (d Day) String() string { return d.Start().Format(time.DateOnly) }

// KeyDay counts the requests with a key on a day, at all nodes.
type KeyDay struct {
	Day      Day
	Requests int64 // that the limit was asked for, those refused among them
	Limited  int64 // refused with 429
}

// KeyUse counts the requests with a key in some days.
type KeyUse struct {
	LastUsedAt time.Time // to the minute; zero: never
	Requests   int64
	Limited    int64
}
