// Package isotime formats and parses ISO 8601 times. Package time would add
// 275 kB to a module of 1.9 MB that needs nothing else of it.
//
// Times are microseconds since the Unix epoch, UTC, on the proleptic Gregorian
// calendar, in the years 0000 to 9999. Days are counted with the algorithms
// days_from_civil and civil_from_days of Howard Hinnant's "chrono-Compatible
// Low-Level Date Algorithms", which number the days from 0000-03-01 in eras of
// 400 years.
package isotime

const (
	second = int64(1_000_000)
	day    = 86_400 * second

	earliest = -62_167_219_200 * second   // 0000-01-01T00:00:00Z
	latest   = 253_402_300_800*second - 1 // 9999-12-31T23:59:59.999999Z
	eraDays  = 146_097                    // 400 years
	shift    = 719_468                    // 0000-03-01 to 1970-01-01
)

// Append appends t to b in the form 2006-01-02T15:04:05.000000Z. A time outside
// the years 0000 to 9999 is written as the nearest one within them.
func Append(b []byte, t int64) []byte {
	t = min(max(t, earliest), latest)
	days, rest := t/day, t%day
	if rest < 0 {
		days, rest = days-1, rest+day
	}
	year, month, date := civil(days)
	text := [...]byte{4: '-', 7: '-', 10: 'T', 13: ':', 16: ':', 19: '.', 26: 'Z'}
	put2(text[0:], year/100)
	put2(text[2:], year%100)
	put2(text[5:], month)
	put2(text[8:], date)
	put2(text[11:], rest/(3600*second))
	put2(text[14:], rest/(60*second)%60)
	put2(text[17:], rest/second%60)
	rest %= second
	put2(text[20:], rest/10_000)
	put2(text[22:], rest/100%100)
	put2(text[24:], rest%100)
	return append(b, text[:]...)
}

// put2 writes the two decimal digits of n.
func put2(b []byte, n int64) {
	tens := n / 10
	b[0], b[1] = byte('0'+tens), byte('0'+n-10*tens)
}

// Parse parses an ISO 8601 date, or date and time: 2024-05-01,
// 2024-05-01T10:00Z, 2024-05-01 10:00:00, 2024-05-01T10:00:00.5+02:00, and
// everything else that RFC 3339 allows. The offset may be Z, +hh, +hhmm or
// +hh:mm; without one the time is UTC. Digits of the fraction beyond
// microseconds are dropped. A leap second is the moment after it. The result
// for the epoch itself is 0, which frames read as "not set".
func Parse(s string) (t int64, ok bool) {
	t, _, ok = parse(s)
	return t, ok
}

// ParseUp is like Parse, but rounds up what is finer than microseconds, within
// the years 0000 to 9999. An exclusive upper bound of times is read by it, for
// the time that Parse returns may lie before the bound.
func ParseUp(s string) (t int64, ok bool) {
	t, finer, ok := parse(s)
	if ok && finer {
		t = min(t+1, latest)
	}
	return t, ok
}

// parse is Parse, and reports whether it dropped a digit other than zero.
func parse(s string) (t int64, finer, ok bool) {
	p := parser{s: s, ok: true}
	year := p.number(4)
	p.expect('-')
	month := p.number(2)
	p.expect('-')
	date := p.number(2)
	if !p.ok || month < 1 || month > 12 || date < 1 || date > daysIn(year, month) {
		return 0, false, false
	}
	t = daysFromCivil(year, month, date) * day
	if p.s == "" {
		return t, false, true
	}
	if !p.accept('T') && !p.accept('t') {
		p.expect(' ')
	}
	hour := p.number(2)
	p.expect(':')
	minute := p.number(2)
	var sec, fraction int64
	if p.accept(':') {
		sec = p.number(2)
		if p.accept('.') || p.accept(',') {
			fraction, finer = p.fraction()
		}
	}
	offset := p.offset()
	if !p.ok || p.s != "" || hour > 23 || minute > 59 || sec > 60 {
		return 0, false, false
	}
	t += (hour*3600+minute*60-offset)*second + sec*second + fraction
	if sec == 60 {
		t, finer = t-fraction, false
		if t%day != 0 { // leap seconds exist at the end of a UTC day only
			return 0, false, false
		}
	}
	return t, finer, t >= earliest && t <= latest
}

// parser reads the parts of a time from the start of s. Once a part is missing,
// ok is false.
type parser struct {
	s  string
	ok bool
}

func (p *parser) accept(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *parser) expect(c byte) {
	if !p.accept(c) {
		p.ok = false
	}
}

func (p *parser) number(width int) (n int64) {
	if len(p.s) < width {
		p.ok = false
		return 0
	}
	for i := range width {
		c := p.s[i]
		if c < '0' || c > '9' {
			p.ok = false
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	p.s = p.s[width:]
	return n
}

// fraction reads the digits of a fraction. finer is true if one beyond
// microseconds is not zero.
func (p *parser) fraction() (micros int64, finer bool) {
	i := 0
	for scale := second / 10; i < len(p.s) && p.s[i] >= '0' && p.s[i] <= '9'; i++ {
		micros += int64(p.s[i]-'0') * scale
		finer = finer || scale == 0 && p.s[i] != '0'
		scale /= 10
	}
	p.ok = p.ok && i > 0
	p.s = p.s[i:]
	return micros, finer
}

// offset returns how many seconds the zone is ahead of UTC.
func (p *parser) offset() int64 {
	if p.s == "" || p.accept('Z') || p.accept('z') {
		return 0
	}
	sign := int64(1)
	if p.accept('-') {
		sign = -1
	} else {
		p.expect('+')
	}
	hours := p.number(2)
	var minutes int64
	if p.accept(':') || p.s != "" {
		minutes = p.number(2)
	}
	p.ok = p.ok && hours <= 23 && minutes <= 59
	return sign * (hours*3600 + minutes*60)
}

func daysIn(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// daysFromCivil returns the days from 1970-01-01 to a date. year is 0 to 9999.
func daysFromCivil(year, month, date int64) int64 {
	if month <= 2 {
		year-- // years begin in March here, so that the leap day is the last
	}
	era := year / 400
	if year < 0 {
		era = -1
	}
	y := year - era*400
	m := (month + 9) % 12
	return era*eraDays + y*365 + y/4 - y/100 + (153*m+2)/5 + date - 1 - shift
}

// civil returns the date that lies this many days after 1970-01-01.
func civil(days int64) (year, month, date int64) {
	days += shift
	era := days / eraDays
	if days < 0 {
		era = -1
	}
	d := days - era*eraDays
	y := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*y + y/4 - y/100
	m := (5*d + 2) / 153
	date = d - (153*m+2)/5 + 1
	year, month = y+era*400, m+3
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, date
}
