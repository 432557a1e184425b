package console

import (
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"partneredge/edge/adminapi"
)

// signs begin a formula.
const signs = "=+-@＝＋－＠"

// checkCells writes text into the first, the middle and the last cell of rows, and fails if
// any reader finds a cell that begins as a formula does.
func checkCells(t *testing.T, text string) {
	var file strings.Builder
	writeRow(&file, []string{text, "a", text})
	writeRow(&file, []string{"a", text, text})
	for _, comma := range ",;\t" {
		in := csv.NewReader(strings.NewReader(file.String()))
		in.Comma, in.FieldsPerRecord, in.LazyQuotes = comma, -1, comma != ','
		rows, err := in.ReadAll()
		if err != nil || comma == ',' && (len(rows) != 2 || len(rows[0]) != 3 || len(rows[1]) != 3) {
			t.Fatalf("%q is written as %q, and read by %q as %q, %v", text, file.String(), comma, rows, err)
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.IndexAny(cell, signs) == 0 || comma == ',' && strings.IndexAny(cell, "\t\r\n") == 0 {
					t.Fatalf("%q is written as %q, of which %q makes the cell %q", text, file.String(), comma, cell)
				}
			}
		}
		// A reader that knows no quotes at all, or drops them and the spaces.
		if comma == ',' {
			continue
		}
		for _, cell := range strings.FieldsFunc(file.String(), func(r rune) bool { return r == comma || r == '\r' || r == '\n' }) {
			if strings.IndexAny(strings.TrimLeft(cell, "\" \u00a0\u200b"), signs) == 0 {
				t.Fatalf("%q is written as %q, of which %q makes the cell %q without quotes", text, file.String(), comma, cell)
			}
		}
	}
}

// TestCells has no formula in any cell, whichever separator the reader takes, for every
// text of up to four characters that matter.
func TestCells(t *testing.T) {
	alphabet := []string{"=", "-", "＠", ";", ",", "\t", "\r", "\n", `"`, "'", " ", "\u200b", "a"}
	texts := []string{""}
	for range 4 {
		for _, text := range texts {
			checkCells(t, text)
		}
		longer := make([]string, 0, len(texts)*len(alphabet))
		for _, text := range texts {
			for _, r := range alphabet {
				longer = append(longer, text+r)
			}
		}
		texts = longer
	}
	for _, text := range texts {
		checkCells(t, text)
	}
	for _, plain := range []string{"", "José", "o'Hara", `the "agent"`, "a; b", "a-b=c", "x, -1", "two\nlines", "a\xffb"} {
		if got := cell(plain); got != plain {
			t.Errorf("%q becomes %q", plain, got)
		}
	}
}

func FuzzCells(f *testing.F) {
	for _, text := range []string{"Sam;=cmd|'/C calc'!A0;x", "a\n=1+1", "＝1", `a;"=1"`, "a;\x00=1", "\xff;=1", ";\xff=1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkCells(t, text) })
}

// TestOneDownload refuses a second download of a session, and ends the first once the
// browser has left.
func TestOneDownload(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	v := visitOf("/console/x.csv", nil)
	v.Request, v.session = v.WithContext(ctx), c.sessions.open("t", adminapi.Whoami{})
	answer := httptest.NewRecorder()
	c.download(table{rows: func(v *visit, add func(...string) bool) error {
		second := httptest.NewRecorder()
		if c.download(table{})(second, v); second.Code != 429 {
			t.Errorf("a second download: %d", second.Code)
		}
		if !add("a") {
			t.Error("ended while the browser waits")
		}
		if leave(); add("b") {
			t.Error("goes on without the browser")
		}
		return nil
	}})(answer, v)
	if answer.Body.Len() != 0 || v.session.downloads.Load() {
		t.Errorf("the answer is %q", answer.Body)
	}
}

// TestLongDownload: one whose rows take longer than the server gives an answer arrives.
func TestLongDownload(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	const limit = 10 * time.Millisecond
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{Request: r, session: c.sessions.open("t", adminapi.Whoami{})}
		c.download(table{head: []string{"a"}, rows: func(_ *visit, add func(...string) bool) error {
			<-time.After(2 * limit) // the answer's time has passed
			add("b")
			return nil
		}})(w, v)
	}))
	server.Config.WriteTimeout = limit
	server.Start()
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if want := "\ufeff\"a\"\r\n\"b\"\r\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
}
