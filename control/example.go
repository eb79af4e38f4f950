package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// examples are, by operation, what a caller sends and what it is answered.
type examples map[string]struct {
	Request, Answer json.RawMessage
}

// readExamples reads the examples that were taken from a running service.
func readExamples() (examples, error) {
	text, err := page.ReadFile("page/examples.json")
	if err != nil {
		return nil, err
	}
	var t examples
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("cannot read the examples: %w", err)
	}
	return t, nil
}

// illustrate gives an operation its examples. What was not taken from a running
// service is made up from the schema.
func illustrate(op object, t examples, schemas object) {
	example := t[op["operationId"].(string)]
	if body, ok := op["requestBody"].(object); ok {
		exemplify(body, example.Request, schemas)
	}
	for status, response := range op["responses"].(object) {
		if strings.HasPrefix(status, "2") {
			exemplify(response.(object), example.Answer, schemas)
		}
	}
}

func exemplify(holder object, example json.RawMessage, schemas object) {
	content, _ := holder["content"].(object)
	for _, media := range content {
		media := media.(object)
		if example != nil {
			media["example"] = example
		} else if schema, ok := media["schema"].(object); ok {
			media["example"] = sample(schema, "", schemas)
		}
	}
}

// sample makes up a value that a schema allows. name is the member's that holds it.
func sample(schema object, name string, schemas object) any {
	if ref, ok := schema["$ref"].(string); ok {
		return sample(schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(object), name, schemas)
	}
	if list, ok := schema["examples"].([]any); ok {
		return list[0]
	}
	if one, ok := schema["default"]; ok {
		return one
	}
	switch list := schema["enum"].(type) {
	case []any:
		return list[0]
	case []string:
		return list[0]
	}
	types := typesOf(schema)
	if slices.Contains(types, "null") && !slices.Contains([]string{"correlationId", "witness"}, name) {
		return nil
	}
	if len(types) == 0 {
		return object{}
	}
	switch types[0] {
	case "object":
		value := object{}
		properties, _ := schema["properties"].(object)
		for member, inner := range properties {
			value[member] = sample(inner.(object), member, schemas)
		}
		return value
	case "array":
		return []any{sample(schema["items"].(object), strings.TrimSuffix(name, "s"), schemas)}
	case "boolean":
		return true
	case "integer", "number":
		if least, ok := schema["minimum"].(float64); ok {
			return max(least, 1)
		}
		return 1
	}
	return sampleText(schema, name)
}

// prefixes of ids, by the noun that they name.
var idPrefixes = map[string]string{
	"right": "rgh_", "basis": "bas_", "tenant": "tnt_", "org": "org_", "developer": "dev_", "key": "key_", "pack": "ppk_",
	"receipt": "rcp_", "event": "evt_", "node": "nod_",
}

func sampleText(schema object, name string) string {
	if schema["format"] == "date-time" {
		return "2026-11-21T04:00:00.000Z"
	}
	noun := strings.ToLower(strings.TrimSuffix(name, "Id"))
	for _, known := range slices.Sorted(maps.Keys(idPrefixes)) {
		if strings.HasSuffix(name, "Id") && strings.HasSuffix(noun, known) {
			return idPrefixes[known] + "01M7Y45MG0YQ2E2D8Z1V5K3T9B"
		}
	}
	text := "text"
	if least, ok := schema["minLength"].(float64); ok {
		text += strings.Repeat("x", max(0, int(least)-len(text)))
	}
	return text
}
