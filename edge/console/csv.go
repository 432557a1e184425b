package console

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"partneredge/edge/adminapi"
)

// maxRows bounds a download: what a page selects can be all of the log.
const maxRows = 10_000

// downloadWrite is the time that a download may take once it has been read.
const downloadWrite = time.Minute

// table is a list that can be downloaded. rows calls add with each row of what the visit
// selects, until add returns false.
type table struct {
	file string
	head []string
	rows func(v *visit, add func(...string) bool) error
}

// refusedDownload is the error of a download that the visitor may not have, or that selects
// nothing that can be.
type refusedDownload struct {
	status int
	text   string
}

func (r refusedDownload) Error() string { return r.text }

// download answers with a table as CSV, once all of it is read: half a file looks whole.
func (c *Console) download(t table) func(http.ResponseWriter, *visit) {
	return func(w http.ResponseWriter, v *visit) {
		if !v.session.downloads.CompareAndSwap(false, true) {
			c.problem(w, v.session, http.StatusTooManyRequests, "Another download of your session is under way. Wait until it ends.")
			return
		}
		defer v.session.downloads.Store(false)
		var text strings.Builder
		text.WriteString("\ufeff") // without it Excel takes the text for that of an old code page
		writeRow(&text, t.head)
		rows := 0
		err := t.rows(v, func(cells ...string) bool {
			writeRow(&text, cells)
			rows++
			return rows < maxRows && v.Context().Err() == nil
		})
		if v.Context().Err() != nil { // the browser left
			return
		}
		// To read a long log takes longer than an answer is given from the start.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(downloadWrite))
		if refused, ok := errors.AsType[refusedDownload](err); ok {
			c.problem(w, v.session, refused.status, refused.text)
			return
		}
		if err != nil {
			c.fail(w, v, err)
			return
		}
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="`+t.file+`"`)
		_, _ = w.Write([]byte(text.String())) // who went away needs no answer
	}
}

// writeRow writes cells as a row of CSV (RFC 4180), each in quotes.
func writeRow(to *strings.Builder, cells []string) {
	for i, text := range cells {
		if i > 0 {
			to.WriteByte(',')
		}
		to.WriteString(`"` + strings.ReplaceAll(cell(text), `"`, `""`) + `"`)
	}
	to.WriteString("\r\n")
}

// cell returns text so that no spreadsheet takes it, or a part of it, for a formula:
// partners and strangers choose names, routes and what their endpoints answer. Excel splits
// rows at semicolons or tabs where its locale says so, and quotes that do not begin a cell
// do not keep it from that. So each place where a cell can begin gets an apostrophe if
// a formula would follow (OWASP, CSV Injection).
func cell(text string) string {
	var safe strings.Builder
	begins := true
	for i, r := range text {
		if begins && (formula(text[i:]) || i == 0 && strings.ContainsRune("\t\r\n", r)) {
			safe.WriteByte('\'')
		}
		_, size := utf8.DecodeRuneInString(text[i:])
		safe.WriteString(text[i : i+size])
		begins = strings.ContainsRune(";\t\r\n", r)
	}
	return safe.String()
}

// formula reports whether a cell that begins as text does can be a formula. Quotes, spaces
// and what nobody sees may be gone once the cell is read; full-width signs are read as
// the plain ones in East Asian locales.
func formula(text string) bool {
	for _, r := range text {
		if strings.ContainsRune("=+-@＝＋－＠", r) {
			return true
		}
		if strings.ContainsRune("\t\r\n", r) || r != '"' && !unicode.IsSpace(r) && unicode.IsGraphic(r) {
			return false
		}
	}
	return false
}

// stampCell is a time as spreadsheets read it, in UTC; "" is none.
func stampCell(t adminapi.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// asCSV returns where the list of a page is downloaded, as the page selects it.
func (v *visit) asCSV() string {
	query := v.URL.Query()
	query.Del("cursor")
	return v.URL.Path + ".csv?" + query.Encode()
}

var deliveriesTable = table{
	file: "deliveries.csv",
	head: []string{"delivery", "event", "event_type", "subscription", "account", "state", "attempts", "created_at", "next_at", "last_try", "last_status", "last_error"},
	rows: func(v *visit, add func(...string) bool) error {
		for {
			shown, err := allDeliveries(v)
			if err != nil {
				return err
			}
			data := shown.Data.(deliveryFilter)
			if data.Wrong != "" {
				return refusedDownload{http.StatusBadRequest, data.Wrong}
			}
			for _, d := range data.Items {
				var last adminapi.Try
				if len(d.Tries) > 0 {
					last = d.Tries[len(d.Tries)-1]
				}
				status := ""
				if last.Status != nil {
					status = strconv.Itoa(*last.Status)
				}
				if !add(d.ID, d.EventID, d.EventType, d.SubscriptionID, d.AccountID, d.State, strconv.Itoa(d.Attempts),
					stampCell(d.CreatedAt), stampCell(d.NextAt), last.ID, status, last.Error) {
					return nil
				}
			}
			if shown.Next == "" {
				return nil
			}
			next, err := url.Parse(shown.Next)
			if err != nil {
				return err
			}
			v.URL.RawQuery = next.RawQuery
		}
	},
}

var requestsTable = table{
	file: "requests.csv",
	head: []string{"request", "at", "method", "route", "status", "error", "reason", "duration_ms", "key", "account", "node", "region"},
	rows: func(v *visit, add func(...string) bool) error {
		shown, err := requests(v)
		if err != nil {
			return err
		}
		data := shown.Data.(requestSearch)
		switch {
		case data.Wrong != "":
			return refusedDownload{http.StatusBadRequest, data.Wrong}
		case data.Hint != "":
			return refusedDownload{http.StatusBadRequest, "Nothing found: " + data.Hint + "."}
		case len(data.Unreached) > 0:
			var away []string
			for _, n := range data.Unreached {
				away = append(away, n.Node+" in "+n.Region+": "+n.Reason)
			}
			return refusedDownload{http.StatusBadRequest, "Not known of " + strings.Join(away, "; ") + "."}
		}
		for _, r := range data.Items {
			if !add(r.ID, stampCell(r.At), r.Method, r.Route, strconv.Itoa(r.Status), r.Error, r.Reason,
				strconv.FormatFloat(r.DurationMS, 'f', 1, 64), r.KeyID, r.AccountID, r.Node, r.Region) {
				return nil
			}
		}
		return nil
	},
}

// leadsTable has the leads of one account, the newest first.
var leadsTable = table{
	file: "leads.csv",
	head: []string{"lead", "created_at", "captured_at", "environment", "first_name", "last_name", "email", "phone", "consent_status", "outreach_allowed", "key"},
	rows: func(v *visit, add func(...string) bool) error {
		if !(view{Who: &v.session.who}).May("admin") { // as for an export: many people at once
			return refusedDownload{http.StatusForbidden, "A download of leads needs the role admin."}
		}
		for l, err := range adminapi.All[adminapi.Lead](v.Context(), v.api, "/accounts/"+v.id()+"/leads", nil) {
			if err != nil {
				return err
			}
			if !add(l.ID, stampCell(l.CreatedAt), stampCell(l.CapturedAt), l.Environment, l.FirstName, l.LastName, l.Email, l.Phone,
				l.ConsentStatus, strconv.FormatBool(l.OutreachAllowed), l.KeyID) {
				return nil
			}
		}
		return nil
	},
}
