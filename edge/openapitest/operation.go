package openapitest

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Operation is a method of a path, or an event.
type Operation struct {
	Method, Path string               // "GET", "/accounts/{id}"
	Parameters   []*Parameter         // those of the path among them
	Request      *Body                // nil: it takes none
	Responses    map[string]*Response // by status: "200", "2XX", "default"

	bases    []string
	security [][]string // one of these sets of schemes of the Authorization header
}

// Parameter is a parameter of an operation, or a header of an answer.
type Parameter struct {
	Name, In string // In: "path", "query", "header"
	Required bool
	Schema   *Schema
}

// Body is what a request may carry.
type Body struct {
	Required bool
	Content  map[string]*Media // by media type
}

// Response is what an operation may answer.
type Response struct {
	Headers []*Parameter
	Content map[string]*Media
}

// Media is a body of one media type.
type Media struct {
	Schema   *Schema // nil: anything
	Examples map[string]any
}

// reader collects what is wrong while a document is read.
type reader struct {
	*Document
	problems []error
}

func (r *reader) fail(at, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
}

func (d *Document) readServers() error {
	servers, _ := d.root["servers"].([]any)
	for _, s := range servers {
		address, _ := d.Follow(s)["url"].(string)
		u, err := url.Parse(address)
		if err != nil {
			return fmt.Errorf("/servers: %w", err)
		}
		d.bases = append(d.bases, strings.TrimSuffix(u.Path, "/"))
	}
	if len(d.bases) == 0 {
		d.bases = []string{""}
	}
	schemes, _ := d.lookup("#/components/securitySchemes")
	d.schemes, _ = schemes.(map[string]any)
	return nil
}

// members returns the members of an object by pointer and name, ordered by name.
func members(value any) func(yield func(string, any) bool) {
	object, _ := value.(map[string]any)
	return func(yield func(string, any) bool) {
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if !yield(name, object[name]) {
				return
			}
		}
	}
}

var methods = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

func (d *Document) readPaths() error {
	r := &reader{Document: d}
	for path, value := range members(d.root["paths"]) {
		at, item := r.follow(pointer("/paths", path), value)
		for method, value := range members(item) {
			if slices.Contains(methods, method) {
				o := r.operation(at, item, method, value, false)
				o.Path = path
				r.checkTemplate(at, o)
				d.Operations = append(d.Operations, o)
			}
		}
	}
	for name, value := range members(d.root["webhooks"]) {
		at, item := r.follow(pointer("/webhooks", name), value)
		if item["post"] == nil {
			r.fail(at, "no method post")
			continue
		}
		d.Events[name] = r.operation(at, item, "post", item["post"], true)
	}
	return errors.Join(r.problems...)
}

// operation reads an operation of the service, or an event: its request is what the service
// writes.
func (r *reader) operation(at string, item map[string]any, method string, value any, event bool) *Operation {
	o := &Operation{Method: strings.ToUpper(method), bases: r.bases, Responses: make(map[string]*Response)}
	own := pointer(at, method)
	operation := r.Follow(value)
	for _, list := range []struct {
		at     string
		values any
	}{{pointer(own, "parameters"), operation["parameters"]}, {pointer(at, "parameters"), item["parameters"]}} {
		values, _ := list.values.([]any)
		for i, v := range values {
			p := r.parameter(pointer(list.at, fmt.Sprint(i)), v, event)
			known := slices.ContainsFunc(o.Parameters, func(q *Parameter) bool { return q.In == p.In && q.Name == p.Name })
			if !known { // an operation's parameter replaces that of its path
				o.Parameters = append(o.Parameters, p)
			}
		}
	}
	if body := operation["requestBody"]; body != nil {
		at, body := r.follow(pointer(own, "requestBody"), body)
		required, _ := body["required"].(bool)
		o.Request = &Body{Required: required, Content: r.content(at, body, event)}
	}
	for status, v := range members(operation["responses"]) {
		at, response := r.follow(pointer(pointer(own, "responses"), status), v)
		answer := &Response{Content: r.content(at, response, !event)}
		for name, v := range members(response["headers"]) {
			at, header := r.follow(pointer(pointer(at, "headers"), name), v)
			answer.Headers = append(answer.Headers, r.described(at, header, name, "header", !event))
		}
		o.Responses[status] = answer
	}
	security, ok := operation["security"]
	if !ok {
		security = r.root["security"]
	}
	r.security(own, o, security)
	return o
}

func (r *reader) parameter(at string, value any, writes bool) *Parameter {
	at, p := r.follow(at, value)
	name, _ := p["name"].(string)
	in, _ := p["in"].(string)
	if !slices.Contains([]string{"path", "query", "header"}, in) {
		r.fail(at, "parameters in %q are not compared", in)
	}
	return r.described(at, p, name, in, writes)
}

// described reads what a parameter and a header have in common.
func (r *reader) described(at string, value map[string]any, name, in string, writes bool) *Parameter {
	required, _ := value["required"].(bool)
	p := &Parameter{Name: name, In: in, Required: required}
	if value["schema"] == nil {
		r.fail(at, "no schema: values of other forms are not compared")
		return p
	}
	if p.Schema = r.compile(pointer(at, "schema"), value["schema"], writes); p.Schema != nil {
		for _, t := range p.Schema.types {
			if t == "array" || t == "object" {
				r.fail(at, "values of the type %s are not compared", t)
			}
		}
	}
	return p
}

// content reads bodies, which the service writes or reads.
func (r *reader) content(at string, value map[string]any, writes bool) map[string]*Media {
	all := make(map[string]*Media)
	for kind, v := range members(value["content"]) {
		at, media := r.follow(pointer(pointer(at, "content"), kind), v)
		m := &Media{Examples: make(map[string]any)}
		if schema, ok := media["schema"]; ok {
			m.Schema = r.compile(pointer(at, "schema"), schema, writes)
		}
		if example, ok := media["example"]; ok {
			m.Examples["example"] = example
		}
		for name, example := range members(media["examples"]) {
			m.Examples[name] = r.Follow(example)["value"]
		}
		all[kind] = m
	}
	return all
}

func (r *reader) compile(at string, value any, writes bool) *Schema {
	s, err := r.schema(at, value, writes)
	if err != nil {
		r.problems = append(r.problems, err)
	}
	return s
}

// security reads which schemes of the Authorization header a request may have.
func (r *reader) security(at string, o *Operation, value any) {
	list, _ := value.([]any)
	for _, one := range list {
		set := []string{}
		for name := range members(one) {
			scheme := r.Follow(r.schemes[name])
			if scheme["type"] != "http" {
				r.fail(at, "the security scheme %s is missing, or is not of HTTP and not compared", name)
				continue
			}
			set = append(set, fmt.Sprint(scheme["scheme"]))
		}
		o.security = append(o.security, set)
	}
}

var inBraces = regexp.MustCompile(`\{([^{}]*)\}`)

// checkTemplate holds a path's variables to its parameters.
func (r *reader) checkTemplate(at string, o *Operation) {
	variables := make(map[string]bool)
	for _, v := range inBraces.FindAllStringSubmatch(o.Path, -1) {
		variables[v[1]] = true
	}
	for _, p := range o.Parameters {
		if p.In == "path" && !variables[p.Name] {
			r.fail(at, "%s has the parameter %s, the path has not", o.Method, p.Name)
		}
		if p.In == "path" {
			delete(variables, p.Name)
		}
	}
	for name := range variables {
		r.fail(at, "%s does not describe the parameter %s", o.Method, name)
	}
}
