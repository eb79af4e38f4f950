package control

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/store"
	"muniment/gateway/api"
)

// readQuery refuses parameters that the database can't look for, those that are required and
// not there, and those that are there but empty, where nothing empty is one of their values: huma would take them for absent,
// and so a list for one without a filter. For the same reason it refuses, under /v1, a query
// that can't be read and parameters that the operation does not have.
func (d *door) readQuery(ctx huma.Context, next func(huma.Context)) {
	u := ctx.URL()
	given, err := url.ParseQuery(u.RawQuery)
	strict := strings.HasPrefix(ctx.Operation().Path, "/v1/")
	if strict && err != nil {
		d.refuse(ctx, &api.Error{Code: api.BadRequest, Message: "the query is not valid: it has a % without two hexadecimal digits, or a semicolon"})
		return
	}
	var faults, absent []api.ValidationError
	var known []string
	for _, p := range ctx.Operation().Parameters {
		if p.In != "query" {
			continue
		}
		known = append(known, p.Name)
		if p.Required && given.Get(p.Name) == "" {
			absent = append(absent, api.ValidationError{Field: p.Name, Message: "required query parameter is missing", Kind: api.FaultMissing})
			continue
		}
		if !given.Has(p.Name) {
			continue
		}
		mayBeEmpty := p.Schema.Type == huma.TypeString && len(p.Schema.Enum) == 0
		switch {
		case slices.ContainsFunc(given[p.Name], func(value string) bool { return !store.Storable(value) }):
			faults = append(faults, api.ValidationError{Field: p.Name, Message: "must be UTF-8 without U+0000"})
		case given.Get(p.Name) == "" && !mayBeEmpty:
			faults = append(faults, api.ValidationError{Field: p.Name, Message: "must not be empty"})
		}
	}
	if strict {
		faults = append(faults, unknownParameters(given, known)...)
	}
	if len(faults) == 0 { // what was sent may be a misspelt name of what is absent
		faults = absent
	}
	if len(faults) > 0 {
		d.refuse(ctx, api.Invalid(faults...))
		return
	}
	next(ctx)
}

func unknownParameters(given url.Values, known []string) (faults []api.ValidationError) {
	slices.Sort(known)
	list := strings.Join(known, ", ")
	if list == "" {
		list = "none"
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			faults = append(faults, api.ValidationError{Field: strings.ToValidUTF8(name, "�"), Message: "is an unknown parameter: this operation takes " + list})
		}
	}
	return faults
}
