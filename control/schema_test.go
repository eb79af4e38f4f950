package control_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// validator checks examples against the document's schemas: as much of JSON Schema
// as the document uses, and nothing else in it.
type validator struct {
	t       *testing.T
	schemas map[string]any
}

func (v validator) illustrated(holder map[string]any, where string) {
	content, ok := holder["content"].(map[string]any)
	require.True(v.t, ok, "%s has no content", where)
	for kind, media := range content {
		media := media.(map[string]any)
		if kind != "application/json" {
			require.NotContains(v.t, media, "example", "%s: examples are JSON", where)
			continue // a stream or a page
		}
		require.Contains(v.t, media, "example", where)
		if schema, ok := media["schema"].(map[string]any); ok {
			v.check(schema, media["example"], where)
		}
	}
}

// known are the keywords that check understands or that say nothing about validity.
var known = []string{
	"$ref", "type", "enum", "properties", "required", "items", "additionalProperties", "format", "minimum", "maximum",
	"minLength", "maxLength", "pattern", "minItems", "maxItems", "description", "examples", "default", "title",
}

func (v validator) check(schema map[string]any, value any, where string) {
	for keyword := range schema {
		require.Contains(v.t, known, keyword, where)
	}
	if ref, ok := schema["$ref"].(string); ok {
		v.check(v.schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any), value, where)
	}
	kind := map[bool]string{true: "null"}[value == nil]
	switch value := value.(type) {
	case map[string]any:
		kind = "object"
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range optional(schema["required"]) {
			require.Contains(v.t, value, name, where)
		}
		for name, inner := range value {
			if property, ok := properties[name].(map[string]any); ok {
				v.check(property, inner, where+"."+name)
			}
		}
	case []any:
		kind = "array"
		if least, ok := schema["minItems"].(float64); ok {
			require.GreaterOrEqual(v.t, len(value), int(least), where)
		}
		for i, inner := range value {
			if items, ok := schema["items"].(map[string]any); ok {
				v.check(items, inner, fmt.Sprintf("%s[%d]", where, i))
			}
		}
	case string:
		kind = "string"
		if schema["format"] == "date-time" {
			_, err := time.Parse(time.RFC3339, value)
			require.NoError(v.t, err, where)
		}
		if least, ok := schema["minLength"].(float64); ok {
			require.GreaterOrEqual(v.t, len(value), int(least), where)
		}
		if most, ok := schema["maxLength"].(float64); ok {
			require.LessOrEqual(v.t, len(value), int(most), where)
		}
		if form, ok := schema["pattern"].(string); ok {
			require.Regexp(v.t, form, value, where)
		}
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
		if value == float64(int64(value)) {
			kind = "integer"
		}
		if least, ok := schema["minimum"].(float64); ok {
			require.GreaterOrEqual(v.t, value, least, where)
		}
		if most, ok := schema["maximum"].(float64); ok {
			require.LessOrEqual(v.t, value, most, where)
		}
	}
	allowed := optional(schema["type"])
	if one, ok := schema["type"].(string); ok {
		allowed = []any{one}
	}
	if kind == "integer" && slices.Contains(allowed, any("number")) {
		kind = "number"
	}
	if len(allowed) > 0 {
		require.Contains(v.t, allowed, kind, where)
	}
	if enum := optional(schema["enum"]); enum != nil {
		require.Contains(v.t, enum, value, where)
	}
}
