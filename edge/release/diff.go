package release

import (
	"cmp"
	"encoding/json"
	"slices"

	"partneredge/wasm/abi"
)

// Change says what became of something from one set of modules to another.
type Change string

// Changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
)

// Difference holds what two sets of modules do not have in common.
type Difference struct {
	Modules []ModuleChange `json:"modules"` // by name
	Routes  []RouteChange  `json:"routes"`  // by path and method
	Grants  []GrantChange  `json:"grants"`  // by module, kind and name
}

// ModuleChange is a module that is not the same in both sets.
type ModuleChange struct {
	Change          Change `json:"change"`
	Name            string `json:"name"`
	SizeBefore      int64  `json:"size_before"` // of the wasm, bytes; 0 if Added
	SizeAfter       int64  `json:"size_after"`  // likewise; 0 if Removed
	WasmChanged     bool   `json:"wasm_changed"`
	ManifestChanged bool   `json:"manifest_changed"`
}

// RouteChange is an endpoint that is not the same in both sets. It is Changed if another
// module answers it, or if a key needs another scope.
type RouteChange struct {
	Change Change      `json:"change"`
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Before *RouteOwner `json:"before"` // null if Added
	After  *RouteOwner `json:"after"`  // null if Removed
}

// RouteOwner says which module answers an endpoint, and the scope that a key needs.
type RouteOwner struct {
	Module string `json:"module"`
	Scope  string `json:"scope"`
}

// GrantChange is something that a module may do in one set only.
type GrantChange struct {
	Change Change `json:"change"`
	Module string `json:"module"`
	Kind   string `json:"kind"` // capability, header or allow_dial
	Name   string `json:"name"`
}

// Compare returns how the modules after differ from those before. The error is
// ErrMalformed if one of the two sets could not be a release.
func Compare(before, after []Module) (Difference, error) {
	d := Difference{Modules: compareModules(before, after), Routes: []RouteChange{}, Grants: []GrantChange{}}
	was, err := ReadManifests(before)
	if err != nil {
		return d, err
	}
	is, err := ReadManifests(after)
	if err != nil {
		return d, err
	}
	d.compareRoutes(was.Routes, is.Routes)
	return d, d.compareGrants(before, after)
}

func compareModules(before, after []Module) []ModuleChange {
	all := map[string]*ModuleChange{}
	was := map[string]*Module{}
	for i := range before {
		m := &before[i]
		was[m.Name] = m
		all[m.Name] = &ModuleChange{Change: Removed, Name: m.Name, SizeBefore: m.Size(), WasmChanged: true, ManifestChanged: true}
	}
	for i := range after {
		m := &after[i]
		c := &ModuleChange{Change: Added, Name: m.Name, SizeAfter: m.Size(), WasmChanged: true, ManifestChanged: true}
		if old := was[m.Name]; old != nil {
			c.Change, c.SizeBefore = Changed, old.Size()
			c.WasmChanged, c.ManifestChanged = old.Digest() != m.Digest(), string(old.Manifest) != string(m.Manifest)
		}
		all[m.Name] = c
		if !c.WasmChanged && !c.ManifestChanged {
			delete(all, m.Name)
		}
	}
	changes := []ModuleChange{}
	for _, c := range all {
		changes = append(changes, *c)
	}
	slices.SortFunc(changes, func(a, b ModuleChange) int { return cmp.Compare(a.Name, b.Name) })
	return changes
}

func (d *Difference) compareRoutes(before, after abi.Routes) {
	type endpoint struct{ path, method string }
	owners := func(routes abi.Routes) map[endpoint]*RouteOwner {
		all := map[endpoint]*RouteOwner{}
		for _, r := range routes {
			all[endpoint{r.Path, r.Method}] = &RouteOwner{r.Handler, r.Scope}
		}
		return all
	}
	was, is := owners(before), owners(after)
	for e, old := range was {
		switch now := is[e]; {
		case now == nil:
			d.Routes = append(d.Routes, RouteChange{Removed, e.method, e.path, old, nil})
		case *now != *old:
			d.Routes = append(d.Routes, RouteChange{Changed, e.method, e.path, old, now})
		}
	}
	for e, now := range is {
		if was[e] == nil {
			d.Routes = append(d.Routes, RouteChange{Added, e.method, e.path, nil, now})
		}
	}
	slices.SortFunc(d.Routes, func(a, b RouteChange) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method))
	})
}

func (d *Difference) compareGrants(before, after []Module) error {
	was, err := grantsOf(before)
	if err != nil {
		return err
	}
	is, err := grantsOf(after)
	if err != nil {
		return err
	}
	for g := range was {
		if !is[g] {
			g.Change = Removed
			d.Grants = append(d.Grants, g)
		}
	}
	for g := range is {
		if !was[g] {
			g.Change = Added
			d.Grants = append(d.Grants, g)
		}
	}
	slices.SortFunc(d.Grants, func(a, b GrantChange) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// grantsOf returns what modules may do, each with an empty Change.
func grantsOf(modules []Module) (map[GrantChange]bool, error) {
	all := map[GrantChange]bool{}
	for _, m := range modules {
		var manifest struct {
			Capabilities []string `json:"capabilities"`
			Headers      []string `json:"headers"`
			AllowDial    []string `json:"allow_dial"`
		}
		if err := json.Unmarshal(m.Manifest, &manifest); err != nil {
			return nil, malformed("the manifest of module %s: %v", m.Name, err)
		}
		for kind, names := range map[string][]string{
			"capability": manifest.Capabilities, "header": manifest.Headers, "allow_dial": manifest.AllowDial,
		} {
			for _, name := range names {
				all[GrantChange{Module: m.Name, Kind: kind, Name: name}] = true
			}
		}
	}
	return all, nil
}
