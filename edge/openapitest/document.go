// Package openapitest holds HTTP exchanges to an OpenAPI 3.1 document in tests.
//
// A document is read whole: it must fit OpenAPI's own schema, each reference must lead
// somewhere, and each schema must be one. Requests and answers are then compared with
// the operation that they belong to. A document with something that the comparison
// would have to leave out, such as cookies, is refused rather than half compared.
package openapitest

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// metaSchema is https://spec.openapis.org/oas/3.1/schema/2022-10-07 with a line for each
// definition, from https://github.com/OAI/OpenAPI-Specification, copyright OpenAPI
// Initiative, licensed under the Apache License 2.0.
//
//go:embed schema.json
var metaSchema []byte

// Names for the documents; nothing is loaded from there.
const (
	documentURL = "https://openapitest.invalid/openapi.json"
	closedURL   = "https://openapitest.invalid/closed.json"
	metaURL     = "https://openapitest.invalid/schema.json"
)

// maxReferences ends references to references that go in a circle.
const maxReferences = 10

// Document is an OpenAPI document. It may be used by several goroutines.
type Document struct {
	// Operations are those of all paths, ordered by path and method.
	Operations []*Operation

	// Events are the operations that receivers of the document's webhooks serve.
	Events map[string]*Operation

	root     map[string]any
	compiler *jsonschema.Compiler // not used after Read
	bases    []string             // paths of the servers, without a slash at the end
	schemes  map[string]any
}

// Read returns a document, or all that is wrong with it.
func Read(text []byte) (*Document, error) {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading an OpenAPI document: %w", err)
	}
	d := &Document{compiler: jsonschema.NewCompiler(), Events: make(map[string]*Operation)}
	d.compiler.AssertFormat()
	if err := fits(value); err != nil {
		return nil, err
	}
	d.root = value.(map[string]any) // else it would not fit
	for at, v := range map[string]any{documentURL: value, closedURL: closed(value)} {
		if err := d.compiler.AddResource(at, v); err != nil {
			return nil, fmt.Errorf("reading an OpenAPI document: %w", err)
		}
	}
	if err := errors.Join(d.checkReferences("", value), d.readServers(), d.readSchemas(), d.readPaths()); err != nil {
		return nil, err
	}
	return d, nil
}

// closed returns a copy of a document in which objects with properties have no others, and
// texts of an x-extensible-enum no other value. Clients take what a later version of the
// service may write; this version writes only what its document names.
func closed(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value)+1)
		for name, v := range value {
			copied[name] = closed(v)
		}
		if _, isObject := value["properties"].(map[string]any); isObject && value["additionalProperties"] == nil {
			copied["additionalProperties"] = false
		}
		if known, extensible := value["x-extensible-enum"].([]any); extensible {
			copied["enum"] = known
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, v := range value {
			copied[i] = closed(v)
		}
		return copied
	}
	return value
}

// openAPI is the schema of OpenAPI documents. It takes longer to compile than a document.
var openAPI = sync.OnceValues(func() (*jsonschema.Schema, error) {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(metaSchema))
	if err != nil {
		return nil, fmt.Errorf("reading OpenAPI's schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(metaURL, schema); err != nil {
		return nil, fmt.Errorf("reading OpenAPI's schema: %w", err)
	}
	return c.Compile(metaURL)
})

// fits compares a document with the schema of OpenAPI documents.
func fits(document any) error {
	schema, err := openAPI()
	if err != nil {
		return err
	}
	if err := schema.Validate(document); err != nil {
		return fmt.Errorf("no OpenAPI document: %w", err)
	}
	return nil
}

// checkReferences returns an error for each reference, at a pointer or below, that leads nowhere.
func (d *Document) checkReferences(at string, value any) error {
	var problems []error
	switch value := value.(type) {
	case map[string]any:
		if ref, ok := value["$ref"].(string); ok {
			if _, found := d.lookup(ref); !found {
				problems = append(problems, fmt.Errorf("%s: the reference %s leads nowhere", at, ref))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if name != "example" && name != "examples" { // what they show may be anything
				problems = append(problems, d.checkReferences(pointer(at, name), value[name]))
			}
		}
	case []any:
		for i, one := range value {
			problems = append(problems, d.checkReferences(pointer(at, fmt.Sprint(i)), one))
		}
	}
	return errors.Join(problems...)
}

// Follow returns the object that value is, or that it refers to; nil if there is none.
func (d *Document) Follow(value any) map[string]any {
	_, object := d.follow("", value)
	return object
}

// follow is Follow that also returns the pointer to the object, given that to value.
func (d *Document) follow(at string, value any) (string, map[string]any) {
	object, _ := value.(map[string]any)
	for range maxReferences {
		ref, ok := object["$ref"].(string)
		if !ok {
			return at, object
		}
		target, _ := d.lookup(ref)
		at = strings.TrimPrefix(ref, "#")
		object, _ = target.(map[string]any)
	}
	return at, nil
}

// lookup returns what a reference within the document leads to.
func (d *Document) lookup(ref string) (value any, found bool) {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, false
	}
	value = d.root
	for name := range strings.SplitSeq(path, "/") {
		name, err := url.PathUnescape(name)
		if err != nil {
			return nil, false
		}
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		value, ok = object[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		if !ok {
			return nil, false
		}
	}
	return value, true
}

// pointer returns the JSON pointer to a member, as a fragment of a URL without "#".
func pointer(at, name string) string {
	return at + "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}

// Schema is a schema of a document.
type Schema struct {
	// Value is the schema as the document has it, with its references.
	Value any

	compiled *jsonschema.Schema
	open     *jsonschema.Schema // as the document has it
	types    []string           // "integer", of a value that is written as text
}

// schema compiles the schema at a pointer, which is closed if the service writes its values.
func (d *Document) schema(at string, value any, writes bool) (*Schema, error) {
	open, err := d.compiler.Compile(documentURL + "#" + at)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	compiled := open
	if writes {
		if compiled, err = d.compiler.Compile(closedURL + "#" + at); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	s := &Schema{Value: value, compiled: compiled, open: open}
	from := compiled
	for range maxReferences {
		if from.Types != nil {
			s.types = append(s.types, from.Types.ToStrings()...)
		}
		if from.Ref == nil {
			break
		}
		from = from.Ref
	}
	return s, nil
}

// readSchemas compiles every schema among the components, whether it is used or not.
func (d *Document) readSchemas() error {
	schemas, _ := d.lookup("#/components/schemas")
	all, _ := schemas.(map[string]any)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, err := d.schema(pointer("/components/schemas", name), all[name], true)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// Check returns an error unless text is JSON that fits the schema. Of what the service
// writes, answers and events, it takes only what the schema names.
func (s *Schema) Check(text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	return s.compiled.Validate(value)
}

// CheckValue is Check for a value of the document's.
func (s *Schema) CheckValue(value any) error { return s.compiled.Validate(value) }

// CheckLater is CheckValue for what a later version of the service may write: it takes all
// that the document allows.
func (s *Schema) CheckLater(value any) error { return s.open.Validate(value) }

// checkText is Check for a value of a parameter or a header, which is written as text.
func (s *Schema) checkText(text string) error {
	if !slices.ContainsFunc(s.types, func(t string) bool { return t != "string" }) {
		return s.compiled.Validate(text)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return s.compiled.Validate(text)
	}
	if err := s.compiled.Validate(value); err != nil && !slices.Contains(s.types, "string") {
		return err
	} else if err != nil {
		return s.compiled.Validate(text)
	}
	return nil
}
