package control

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json"

	"muniment.example/control/route"
	"muniment.example/gateway/api"
	"muniment.example/gateway/auth"
)

// openSchemas are the objects whose unknown members are not refused here: the gateway reads
// deliveries, wherever they come from.
var openSchemas = []string{schemaPrefix + "Observation"}

// stranger is a member of a body that its operation does not have, or that must not be null.
type stranger struct {
	path   []any // names, and indices of lists, from the body's top
	value  any
	known  map[string]*huma.Schema // there
	isNull bool
}

// strangers finds them at every depth, in the order of their paths. Members without a type are the
// operation's to read: the scopes of rights, and telemetry. Null is refused for what may be left out where it
// could be taken for everything: lists that are not empty, and objects.
func (d *handler) strangers(schema *huma.Schema, value any, path []any) (found []stranger) {
	if slices.Contains(openSchemas, schema.Ref) {
		return nil
	}
	schema = resolve(d.api.OpenAPI().Components.Schemas, schema)
	switch value := value.(type) {
	case map[string]any:
		if schema.Type != huma.TypeObject {
			return nil // it has the wrong type, or none
		}
		each, isMap := schema.AdditionalProperties.(*huma.Schema)
		for _, name := range slices.Sorted(maps.Keys(value)) {
			place := append(slices.Clone(path), name)
			switch inner := schema.Properties[name]; {
			case inner != nil && value[name] == nil:
				nullable := inner.MinItems == nil && inner.Ref == "" || resolve(d.api.OpenAPI().Components.Schemas, inner).Nullable
				if !nullable && !slices.Contains(schema.Required, name) {
					found = append(found, stranger{path: place, isNull: true})
				}
			case inner != nil:
				found = append(found, d.strangers(inner, value[name], place)...)
			case isMap:
				found = append(found, d.strangers(each, value[name], place)...)
			default:
				found = append(found, stranger{path: place, value: value[name], known: schema.Properties})
			}
		}
	case []any:
		for i, item := range value {
			if schema.Items != nil {
				found = append(found, d.strangers(schema.Items, item, append(slices.Clone(path), i))...)
			}
		}
	}
	return found
}

// pathOf is a path as errors name it, such as shares[0].bps.
func pathOf(path []any) string {
	var field strings.Builder
	for i, step := range path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&field, "[%d]", step)
		case string:
			if i > 0 {
				field.WriteByte('.')
			}
			field.WriteString(step)
		}
	}
	return field.String()
}

// fault names the path, and the known name that is the nearest; differs says that the name is that of a
// read-only member.
func (s stranger) fault(differs bool) api.ValidationError {
	if s.isNull {
		return api.ValidationError{Field: pathOf(s.path), Message: "must not be null: leave it out"}
	}
	if differs {
		return api.ValidationError{Field: pathOf(s.path), Message: "can't be changed, and is not as it is stored: read the record again, or leave it out"}
	}
	name := s.path[len(s.path)-1].(string)
	return api.ValidationError{Field: pathOf(s.path), Message: "is unknown" + route.Instead(name, slices.Sorted(maps.Keys(s.known))), Kind: api.FaultUnknown}
}

// readOnly returns what says whether the stored record has a stranger of a PUT or a PATCH, and with the
// same value: a record that was read may be sent back with changes.
func (d *handler) readOnly(ctx huma.Context, found []stranger) (known func(stranger) (has, same bool), err error) {
	none := func(stranger) (has, same bool) { return false, false }
	if method := ctx.Operation().Method; len(found) == 0 || method != http.MethodPut && method != http.MethodPatch {
		return none, nil
	}
	record, err := d.stored(ctx)
	if err != nil || record == nil {
		return none, err
	}
	return func(s stranger) (has, same bool) {
		at := record
		for _, step := range s.path {
			switch step := step.(type) {
			case string:
				members, _ := at.(map[string]any)
				if at, has = members[step]; !has {
					return false, false
				}
			case int:
				list, _ := at.([]any)
				if step >= len(list) {
					return false, false
				}
				at = list[step]
			}
		}
		return true, reflect.DeepEqual(at, s.value)
	}, nil
}

// stored is the record at a request's path, as its GET has it; nil if there is none.
func (d *handler) stored(ctx huma.Context) (any, error) {
	outer, _ := humago.Unwrap(ctx)
	item := d.api.OpenAPI().Paths[ctx.Operation().Path]
	if item == nil || item.Get == nil {
		return nil, nil
	}
	caller := auth.PrincipalFrom(ctx.Context())
	if scope, ok := route.Of(item.Get).Access.(route.Scope); ok { // who may replace a record may compare it
		reader := *caller.Key
		reader.Scopes |= api.Scopes(scope)
		caller.Key = &reader
	}
	r, err := http.NewRequestWithContext(context.WithValue(ctx.Context(), inProcess{}, caller), http.MethodGet, outer.URL.EscapedPath(), nil)
	if err != nil {
		return nil, err
	}
	answer := &responseRecorder{header: http.Header{}}
	d.ServeHTTP(answer, r)
	var body struct {
		Data    map[string]any `json:"data"`
		Error   api.Code       `json:"error"`
		Message string         `json:"message"`
	}
	if err := json.Unmarshal(answer.body.Bytes(), &body); err != nil {
		return nil, err
	}
	switch answer.status {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, nil // the operation says so
	default:
		return nil, &api.Error{Code: body.Error, HTTPStatus: answer.status, Message: body.Message, RetryAfter: time.Second}
	}
	for _, record := range body.Data { // it stands under its noun, alone
		return record, nil
	}
	return nil, nil
}
