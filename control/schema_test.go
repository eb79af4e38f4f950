package control_test

import (
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// validator checks examples against the document's schemas.
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

func (v validator) check(schema map[string]any, value any, where string) {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(v.t, c.AddResource("document.json", map[string]any{"components": map[string]any{"schemas": v.schemas}, "of": schema}))
	compiled, err := c.Compile("document.json#/of")
	require.NoError(v.t, err, where)
	require.NoError(v.t, compiled.Validate(value), where)
}
