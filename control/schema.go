package control

import (
	"path"
	"reflect"
	"strings"

	"muniment/control/route"
)

// schemaName is how the OpenAPI document calls a type: as the type says itself (route.Named), or
// as Go does, without its package. The sandbox's begin with Sandbox. The envelope around T, or
// around TData, is TResponse. Two types of one name keep control from starting: huma panics.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return "" // is written where it is used
	}
	name, zero := t.Name(), reflect.Zero(t).Interface()
	if strings.HasPrefix(name, "Body[") {
		data, _ := t.FieldByName("Data")
		return ofSandbox(t, strings.TrimSuffix(schemaName(data.Type, hint), "Data")+"Response")
	}
	if verbatim, ok := zero.(interface{ Of() reflect.Type }); ok {
		return schemaName(verbatim.Of(), hint)
	}
	if named, ok := zero.(route.Named); ok {
		name = named.SchemaName()
	}
	if name == "" {
		name = hint
	}
	return ofSandbox(t, strings.ToUpper(name[:1])+name[1:])
}

func ofSandbox(t reflect.Type, name string) string {
	if path.Base(t.PkgPath()) == "sandbox" && !strings.HasPrefix(name, "Sandbox") {
		return "Sandbox" + name
	}
	return name
}
