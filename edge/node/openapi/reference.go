package openapi

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// reference holds what the page of the reference shows of a document.
type reference struct {
	Title, Version string
	Description    template.HTML
	Groups         []group
	Events         []event
}

// group holds the operations of one tag.
type group struct {
	Name, Description string
	Operations        []operation
}

type operation struct {
	ID, Method, Path, Summary, Scope string
	Description                      template.HTML
	Parameters                       []field
	Body                             *body
	Answers                          []success  // below 400
	Refusals                         []refusal  // from 400 on, but for those of all operations
	Shared                           []refusal  // what every operation may answer
	Variables                        []variable // that samples need besides EDGE_URL and a key
	Samples                          []sample
}

// body is a request's or an answer's JSON.
type body struct {
	Fields   []field
	Examples []example
}

type success struct {
	Status      string
	Description template.HTML
	Headers     []field
	body
}

// refusal is an error code with the reasons that an operation may give for it.
type refusal struct {
	Status, Code string
	Reasons      []string
}

type example struct{ Name, JSON string }

type event struct {
	Name, Summary string
	body
}

// specification resolves references within a document.
type specification struct {
	object
	render func(string) template.HTML // of Markdown
	drawn  int                        // schemas so far, see mostFields
	bytes  int                        // of text so far, see MaxReference
}

// spend counts bytes of text, and reports whether there is room for them.
func (s *specification) spend(n int) bool {
	s.bytes += n
	return s.bytes <= MaxReference
}

// markdown returns a text of the document as HTML.
func (s *specification) markdown(text string) template.HTML {
	if !s.spend(len(text)) {
		return ""
	}
	return s.render(text)
}

// newReference reads what the page shows out of a document.
func newReference(document []byte, markdown func(string) template.HTML) (*reference, error) {
	root, err := parse(document)
	if err != nil {
		return nil, err
	}
	s := &specification{object: root, render: markdown}
	info := root.object("info")
	r := &reference{Title: info.text("title"), Version: info.text("version"), Description: markdown(info.text("description"))}
	for _, tag := range root.list("tags") {
		t, _ := tag.(object)
		r.Groups = append(r.Groups, group{Name: t.text("name"), Description: t.text("description")})
	}
	for _, path := range root.object("paths") {
		item, _ := path.value.(object)
		for _, m := range item {
			if op, ok := m.value.(object); ok && isMethod(m.name) {
				op = withPathParameters(op, item.list("parameters"))
				g := r.group(op)
				g.Operations = append(g.Operations, s.operation(m.name, path.name, op))
			}
		}
	}
	r.share()
	for _, hook := range root.object("webhooks") {
		item, _ := hook.value.(object)
		post := item.object("post")
		if b := s.body(post.object("requestBody")); b != nil {
			r.Events = append(r.Events, event{hook.name, post.text("summary"), *b})
		}
	}
	if s.bytes > MaxReference {
		return nil, fmt.Errorf("the reference page of the API document has more than %d bytes of text: parts of it are referred to very often", MaxReference)
	}
	return r, nil
}

// share moves the refusals that all operations have from Refusals to Shared.
func (r *reference) share() {
	var all []*operation
	for i := range r.Groups {
		for j := range r.Groups[i].Operations {
			all = append(all, &r.Groups[i].Operations[j])
		}
	}
	if len(all) < 2 {
		return
	}
	have := make(map[string]int) // operations by refusal
	for _, o := range all {
		for _, refused := range o.Refusals {
			have[fmt.Sprint(refused)]++
		}
	}
	for _, o := range all {
		var own []refusal
		for _, refused := range o.Refusals {
			if have[fmt.Sprint(refused)] == len(all) {
				o.Shared = append(o.Shared, refused)
			} else {
				own = append(own, refused)
			}
		}
		o.Refusals = own
	}
}

func isMethod(name string) bool {
	switch name {
	case "get", "put", "post", "delete", "patch", "head", "options":
		return true
	}
	return false
}

// group returns the group of an operation's first tag, a new one for a tag that the
// document does not list.
func (r *reference) group(op object) *group {
	name := "Other"
	if tags := op.list("tags"); len(tags) > 0 {
		name = fmt.Sprint(tags[0])
	}
	for i := range r.Groups {
		if r.Groups[i].Name == name {
			return &r.Groups[i]
		}
	}
	r.Groups = append(r.Groups, group{Name: name})
	return &r.Groups[len(r.Groups)-1]
}

// withPathParameters returns an operation with the parameters that its path has for all
// of its methods.
func withPathParameters(op object, shared []any) object {
	if len(shared) == 0 {
		return op
	}
	all := slices.Concat(shared, op.list("parameters"))
	op = slices.DeleteFunc(slices.Clone(op), func(m member) bool { return m.name == "parameters" })
	return append(op, member{"parameters", all})
}

func (s *specification) operation(method, path string, op object) operation {
	o := operation{
		ID: op.text("operationId"), Method: strings.ToUpper(method), Path: path, Summary: op.text("summary"),
		Scope: op.text("x-scope"), Description: s.markdown(op.text("description")), Body: s.body(op.object("requestBody")),
	}
	if o.ID == "" {
		o.ID = strings.Trim(strings.Map(plain, method+path), "-")
	}
	for _, p := range op.list("parameters") {
		if parameter := s.resolve(p); parameter != nil {
			f := s.field(parameter.text("name"), parameter.object("schema"), parameter.get("required") == true)
			f.Type += ", in the " + parameter.text("in")
			f.Description = s.markdown(parameter.text("description"))
			o.Parameters = append(o.Parameters, f)
		}
	}
	for _, m := range op.object("responses") {
		r := s.resolve(m.value)
		if m.name >= "400" {
			o.Refusals = append(o.Refusals, s.refusals(m.name, r)...)
			continue
		}
		a := success{Status: m.name, Description: s.markdown(r.text("description"))}
		if b := s.body(r); b != nil {
			a.body = *b
		}
		for _, h := range r.object("headers") {
			header := s.resolve(h.value)
			f := s.field(h.name, header.object("schema"), header.get("required") == true)
			f.Description = s.markdown(header.text("description"))
			a.Headers = append(a.Headers, f)
		}
		o.Answers = append(o.Answers, a)
	}
	o.Variables, o.Samples = variables(o.Path), samples(s, o, op)
	return o
}

// plain maps what an HTML id had better not contain to a dash.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// resolve returns v as an object, or the part of the document that it refers to.
func (s *specification) resolve(v any) object {
	o, _ := v.(object)
	for range 8 { // a reference may lead to another; more is a circle
		ref := o.text("$ref")
		if ref == "" {
			return o
		}
		o = s.object
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			o = o.object(name)
		}
	}
	return nil
}

// sampleCopies bounds the places of an example on the page: one by itself, and one in
// the sample of each language.
const sampleCopies = 5

// body returns the JSON of a request or an answer, nil if it has none.
func (s *specification) body(of object) *body {
	media := s.resolve(of).object("content").object("application/json")
	if media == nil {
		return nil
	}
	b := &body{Fields: s.fields("", s.resolve(media.get("schema")), 0)}
	for _, m := range media.object("examples") {
		if s.bytes > MaxReference {
			break
		}
		value := encode(s.resolve(m.value).get("value"))
		if _, size := measure([]byte(value)); s.spend(sampleCopies * size) {
			b.Examples = append(b.Examples, example{m.name, show(value)})
		}
	}
	return b
}

// refusals returns the codes and reasons in the examples of an answer.
func (s *specification) refusals(status string, r object) (all []refusal) {
	for _, m := range r.object("content").object("application/json").object("examples") {
		value := s.resolve(m.value).object("value")
		code, reason := value.text("error"), value.text("reason")
		if len(all) == 0 || all[len(all)-1].Code != code {
			all = append(all, refusal{Status: status, Code: code})
		}
		if reason != "" {
			last := &all[len(all)-1]
			last.Reasons = append(last.Reasons, reason)
		}
	}
	return all
}
