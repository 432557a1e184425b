package openapi

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"

	"partneredge/wasm/answer"
	"partneredge/wasm/contract/vectors"
)

// chapter is a page of the guide: guide/NAME.md, served at DocsPath/NAME.
type chapter struct{ Name, Title string }

// Path returns where the page is served.
func (c chapter) Path() string { return DocsPath + "/" + c.Name }

// chapters returns the guide in the order in which a new partner reads it.
func chapters() []chapter {
	return []chapter{
		{"quickstart", "Quick start"},
		{"keys", "Keys and scopes"},
		{"errors", "Errors"},
		{"clients", "Clients"},
		{"limits", "Limits and back-off"},
		{"pagination", "Pagination"},
		{"leads", "Leads and consent"},
		{"webhooks", "Webhooks"},
		{"verifying", "Verifying webhooks"},
		{"testing", "Testing offline"},
		{"going-live", "Going live"},
		{"changelog", "Changelog of the API"},
	}
}

// page holds the values that the templates draw.
type page struct {
	Title     string
	Path      string
	Chapters  []chapter
	Reference *reference
	Body      template.HTML    // of a chapter
	Parts     []part           // of a chapter
	Previous  *chapter         // before it
	Next      *chapter         // after it
	Errors    []answer.Refusal // on the page of errors
}

// render returns every page by its path.
func render(document []byte) (map[string]file, error) {
	markdown := newMarkdown()
	reference, err := newReference(document, markdown)
	if err != nil {
		return nil, err
	}
	templates, err := template.ParseFS(files, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse the pages: %w", err)
	}
	style, err := files.ReadFile("pages/docs.css")
	if err != nil {
		return nil, err
	}
	icon, err := files.ReadFile("pages/icon.svg") // without one browsers ask for /favicon.ico, which the gate refuses
	if err != nil {
		return nil, err
	}
	out := map[string]file{
		DocsPath + "/icon.svg":               {body: icon, kind: "image/svg+xml", age: "public, max-age=300"},
		DocsPath + "/docs.css":               {body: style, kind: "text/css; charset=utf-8", age: "public, max-age=300"},
		DocsPath + "/signature-vectors.json": {body: vectors.Signatures(), kind: "application/json", age: "public, max-age=300", shared: true},
	}
	add := func(p page) error {
		p.Chapters, p.Reference = chapters(), reference
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, "layout.html", p); err != nil {
			return fmt.Errorf("draw %s: %w", p.Path, err)
		}
		out[p.Path] = file{body: b.Bytes(), kind: "text/html; charset=utf-8", age: "no-cache"}
		return nil
	}
	if err := add(page{Title: "Reference", Path: DocsPath}); err != nil {
		return nil, err
	}
	for i, c := range chapters() {
		text, err := files.ReadFile("guide/" + c.Name + ".md")
		if err != nil {
			return nil, err
		}
		p := page{Title: c.Title, Path: c.Path()}
		p.Body, p.Parts = withAnchors(markdown(string(text)))
		if i > 0 {
			p.Previous = &chapters()[i-1]
		}
		if i+1 < len(chapters()) {
			p.Next = &chapters()[i+1]
		}
		if c.Name == "errors" {
			p.Errors = answer.Refusals()
			p.Parts = append(p.Parts, part{"all-errors", "Every error"})
		}
		if err := add(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// part is a section of a chapter: its heading and the id by which links reach it.
type part struct {
	ID    string
	Title template.HTML
}

var (
	heading = regexp.MustCompile(`<h([23]) id="([^"]*)">(.*?)</h[23]>`)
	tag     = regexp.MustCompile(`<[^>]*>`)
	cell    = regexp.MustCompile(`(?s)<t[dh][^>]*>.*?</t[dh]>`)
	name    = regexp.MustCompile(`<code>[^<]{15,}`)
)

// withAnchors adds to each heading of a chapter a link to itself, which a reader can
// copy, and returns its sections of the second level.
func withAnchors(body template.HTML) (_ template.HTML, parts []part) {
	linked := heading.ReplaceAllStringFunc(string(body), func(text string) string {
		m := heading.FindStringSubmatch(text)
		level, id, title := m[1], m[2], m[3]
		if level == "2" {
			parts = append(parts, part{id, template.HTML(title)})
		}
		return fmt.Sprintf(`<h%s id="%s">%s&nbsp;<a class="anchor" href="#%[2]s" aria-label="Link to %s">#</a></h%[1]s>`, level, id, title, tag.ReplaceAllString(title, ""))
	})
	return template.HTML(linked), parts
}

// newMarkdown returns a function from Markdown to HTML. Raw HTML in it is left out.
func newMarkdown() func(string) template.HTML {
	m := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	return func(text string) template.HTML {
		var b strings.Builder
		if err := m.Convert([]byte(text), &b); err != nil {
			return template.HTML(template.HTMLEscapeString(text))
		}
		// What scrolls sideways must be reached by the keyboard.
		text = strings.ReplaceAll(b.String(), "<pre>", `<pre tabindex="0">`)
		return template.HTML(cell.ReplaceAllStringFunc(text, breakable))
	}
}

// breakable lets a line end after the dots and underscores of long code in a table, so
// that it fits a narrow column without being cut anywhere.
func breakable(cell string) string {
	return name.ReplaceAllStringFunc(cell, func(code string) string {
		return strings.NewReplacer(".", ".<wbr>", "_", "_<wbr>").Replace(code)
	})
}
