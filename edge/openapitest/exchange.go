package openapitest

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Operation returns the operation of a method and a path's template, nil if the document
// has none.
func (d *Document) Operation(method, template string) *Operation {
	for _, o := range d.Operations {
		if o.Method == method && o.Path == template {
			return o
		}
	}
	return nil
}

// Find returns the operation of a method and an escaped path below one of the servers,
// nil if the document has none. A path goes before one with a variable in its place,
// whether or not it has the method.
func (d *Document) Find(method, path string) *Operation {
	template, fewest := "", -1
	for _, o := range d.Operations {
		if variables, ok := o.match(path); ok && (fewest < 0 || len(variables) < fewest) {
			template, fewest = o.Path, len(variables)
		}
	}
	return d.Operation(method, template)
}

// match returns the values of the variables in the operation's path, if path is one of its.
func (o *Operation) match(path string) (variables map[string]string, ok bool) {
	for _, base := range o.bases {
		rest, ok := strings.CutPrefix(path, base)
		if !ok {
			continue
		}
		want, got := strings.Split(o.Path, "/"), strings.Split(rest, "/")
		if len(want) != len(got) {
			continue
		}
		variables = make(map[string]string)
		for i, w := range want {
			if name, found := strings.CutPrefix(w, "{"); found && got[i] != "" {
				variables[strings.TrimSuffix(name, "}")] = got[i]
			} else if w != got[i] {
				variables = nil
				break
			}
		}
		if variables != nil {
			return variables, true
		}
	}
	return nil, false
}

// CheckRequest returns what an operation does not allow of a request, whose body is given
// apart. It compares path, parameters, credentials, media type and body.
func (o *Operation) CheckRequest(req *http.Request, body []byte) error {
	variables, ok := o.match(req.URL.EscapedPath())
	if o.Path != "" && !ok || req.Method != o.Method { // receivers of events choose their path
		return fmt.Errorf("%s %s is not %s %s", req.Method, req.URL.EscapedPath(), o.Method, o.Path)
	}
	problems := []error{o.checkCredentials(req.Header), o.checkRequestBody(req.Header, body)}
	query := req.URL.Query() // what cannot be read is no parameter of the document's
	for _, p := range o.Parameters {
		var values []string
		switch p.In {
		case "path":
			value, err := url.PathUnescape(variables[p.Name])
			problems = append(problems, err)
			values = []string{value}
		case "query":
			values = query[p.Name]
		case "header":
			values = req.Header.Values(p.Name)
		}
		problems = append(problems, p.check(values))
	}
	return errors.Join(problems...)
}

func (p *Parameter) check(values []string) error {
	if len(values) == 0 && p.Required {
		return fmt.Errorf("the %s parameter %s is missing", p.In, p.Name)
	}
	for _, v := range values {
		if err := p.Schema.checkText(v); err != nil {
			return fmt.Errorf("the %s parameter %s is %q: %w", p.In, p.Name, v, err)
		}
	}
	return nil
}

// checkCredentials asks for a header of one of the operation's schemes, not for its worth.
func (o *Operation) checkCredentials(header http.Header) error {
	scheme, _, _ := strings.Cut(header.Get("Authorization"), " ")
	for _, set := range o.security {
		if !slices.ContainsFunc(set, func(s string) bool { return !strings.EqualFold(s, scheme) }) {
			return nil
		}
	}
	if o.security == nil {
		return nil
	}
	return fmt.Errorf("the authorization is %q, want one of %v", scheme, o.security)
}

// bodiless are the methods whose bodies mean nothing to HTTP, nor to OpenAPI.
var bodiless = []string{http.MethodGet, http.MethodHead, http.MethodDelete}

func (o *Operation) checkRequestBody(header http.Header, body []byte) error {
	switch {
	case o.Request == nil && len(body) > 0 && !slices.Contains(bodiless, o.Method):
		return errors.New("a body, and the operation takes none")
	case o.Request == nil:
		return nil
	case len(body) == 0 && o.Request.Required:
		return errors.New("no body")
	case len(body) == 0:
		return nil
	}
	return checkContent(o.Request.Content, header, body)
}

// checkContent compares a body with those of its media type.
func checkContent(content map[string]*Media, header http.Header, body []byte) error {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the content type %q: %w", header.Get("Content-Type"), err)
	}
	media := content[kind]
	if media == nil {
		return fmt.Errorf("the content type is %q, want one of %v", kind, slices.Sorted(maps.Keys(content)))
	}
	if media.Schema == nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil
	}
	if err := media.Schema.Check(body); err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	return nil
}

// Response returns what the document says of a status, nil if it says nothing.
func (o *Operation) Response(status int) *Response {
	for _, name := range []string{fmt.Sprint(status), fmt.Sprintf("%dXX", status/100), "default"} {
		if r := o.Responses[name]; r != nil {
			return r
		}
	}
	return nil
}

// CheckResponse returns what an operation does not name of an answer: its status, headers,
// media type or body.
func (o *Operation) CheckResponse(status int, header http.Header, body []byte) error {
	r := o.Response(status)
	if r == nil {
		return fmt.Errorf("%s %s has no status %d", o.Method, o.Path, status)
	}
	var problems []error
	for _, h := range r.Headers {
		values := header.Values(h.Name)
		if strings.EqualFold(h.Name, "Content-Type") {
			continue // OpenAPI: content says it
		}
		problems = append(problems, h.check(values))
	}
	switch {
	case len(r.Content) > 0 && o.Method != http.MethodHead:
		problems = append(problems, checkContent(r.Content, header, body))
	case len(body) > 0:
		problems = append(problems, errors.New("a body, and the document has none"))
	}
	return errors.Join(problems...)
}
