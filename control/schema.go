package control

import (
	"path"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// packagePath is what stands before the last part of a package's path, also
// inside the brackets of a generic type's name.
var packagePath = regexp.MustCompile(`[A-Za-z0-9_.~-]+/`)

// schemaNamer names the schemas of the OpenAPI document. Rooms may name their
// types alike, so a name begins with the room's, unless it does anyway; the words of
// the wire contract and of the gate stand alone. The envelope around T is TAnswer, that
// of the sandbox SandboxTAnswer.
// The nameless bodies of two operations, for which huma has only a hint, are told
// apart by a number.
func schemaNamer() func(t reflect.Type, hint string) string {
	names := map[reflect.Type]string{}
	taken := map[string]bool{}
	return func(t reflect.Type, hint string) string {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if name, known := names[t]; known {
			return name
		}
		base := strings.TrimSuffix(huma.DefaultSchemaNamer(t, hint), "Struct")
		if name := t.Name(); name != "" && t.PkgPath() != "" {
			qualified := path.Base(t.PkgPath()) + "." + packagePath.ReplaceAllString(name, "")
			if inner, ok := strings.CutPrefix(qualified, "api.Body["); ok {
				base = schemaName(strings.TrimSuffix(inner, "]")) + "Answer"
			} else if inner, ok := strings.CutPrefix(qualified, "sandbox.Body["); ok {
				inner = strings.TrimPrefix(strings.TrimRight(inner, "]"), "sandbox.Verbatim[")
				base = "Sandbox" + schemaName(inner) + "Answer"
			} else {
				base = schemaName(qualified)
			}
		}
		name := base
		for n := 2; taken[name]; n++ {
			name = base + strconv.Itoa(n)
		}
		names[t], taken[name] = name, true
		return name
	}
}

// schemaName is the name of room.Type.
func schemaName(qualified string) string {
	room, name, _ := strings.Cut(qualified, ".")
	if room == "api" || room == "gate" || strings.HasPrefix(strings.ToLower(name), room) {
		return camel(name)
	}
	return camel(qualified)
}

// camel joins the words of a qualified name: right.OneRight becomes RightOneRight.
func camel(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune(".[],* ", r) }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
