package control

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"muniment/control/store"
	"muniment/gateway/api"
)

// readQuery refuses parameters that the database can't look for, and those that are there
// but empty, where nothing empty is one of their values: huma would take them for absent,
// and so a list for one without a filter.
func (d *door) readQuery(ctx huma.Context, next func(huma.Context)) {
	u := ctx.URL()
	given := u.Query()
	var faults []api.ValidationError
	for _, p := range ctx.Operation().Parameters {
		if p.In != "query" || !given.Has(p.Name) {
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
	if len(faults) > 0 {
		d.refuse(ctx, api.Invalid(faults...))
		return
	}
	next(ctx)
}
