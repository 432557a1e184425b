package openapi

import (
	"bytes"
	"fmt"
	"html/template"
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
	out := map[string]file{
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
		p := page{Title: c.Title, Path: c.Path(), Body: markdown(string(text))}
		if i+1 < len(chapters()) {
			p.Next = &chapters()[i+1]
		}
		if c.Name == "errors" {
			p.Errors = answer.Refusals()
		}
		if err := add(p); err != nil {
			return nil, err
		}
	}
	return out, nil
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
		return template.HTML(strings.ReplaceAll(b.String(), "<pre>", `<pre tabindex="0">`))
	}
}
