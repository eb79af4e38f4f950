package control_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/control"
	"muniment.example/control/store"
	"muniment.example/gateway/api"
)

// TestKindsAreComplete: an event is emitted by its kind alone (store.Tx.Emit), a kind is made by a
// noun alone, and every noun of the packages is among the kinds.
func TestKindsAreComplete(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	noun, declared := regexp.MustCompile(`&(store\.)?Noun\{Name: "([a-z_]+)"`), map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(filepath.Dir(file), "test") {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotContains(t, string(text), "store.Kind{", "%s: a kind is made by Noun.Kind", file)
		code := regexp.MustCompile(`(?m)^\s*//.*`).ReplaceAllString(string(text), "")
		for _, found := range noun.FindAllStringSubmatch(code, -1) {
			declared[filepath.Dir(file)+" "+found[2]] = true
		}
		require.Equal(t, len(noun.FindAllString(code, -1)), strings.Count(code, "Noun{Name"), file)
	}
	nouns := map[any]bool{}
	for _, k := range control.Kinds {
		nouns[k.Noun] = true
	}
	require.Len(t, nouns, len(declared), "of %v", declared)
	require.Greater(t, len(declared), 20)
}

// TestKindsOfTenants: a type is declared once, and nouns of one name have one scope, so that "key.*"
// needs one scope, too.
func TestKindsOfTenants(t *testing.T) {
	types, scopes := map[string]bool{}, map[string]api.Scope{}
	for _, k := range control.Kinds.OfTenants() {
		require.False(t, types[k.Type], k.Type)
		require.Regexp(t, `^[a-z_]+\.[a-z_]+$`, k.Type)
		require.LessOrEqual(t, len(k.Type), 64, "as webhooks and queries have room for")
		require.NotEmpty(t, k.Means)
		types[k.Type] = true
		if known, ok := scopes[k.Name]; ok {
			require.Equal(t, known, k.Scope, k.Type)
		}
		scopes[k.Name] = k.Scope
		require.True(t, k.Allows(api.Scopes(api.AuditRead)))
		require.True(t, k.Allows(api.Scopes(api.Wildcard)))
		require.False(t, k.Allows(api.EveryScope&^api.Scopes(api.AuditRead|k.Scope)))
	}
}

// TestCatalogueOfEvents: the page for integrators lists what the registry has.
func TestCatalogueOfEvents(t *testing.T) {
	var want strings.Builder
	kinds := control.Kinds.OfTenants()
	slices.SortStableFunc(kinds, func(a, b *store.Kind) int { return strings.Compare(a.Type, b.Type) })
	for i, k := range kinds {
		if i == 0 || kinds[i-1].Name != k.Name {
			fmt.Fprintf(&want, "%s| `%s.*` | `%s` | ", map[bool]string{true: "", false: " |\n"}[i == 0], k.Name, strings.Join(k.Scopes(), "` or `"))
		} else {
			want.WriteString(", ")
		}
		fmt.Fprintf(&want, "`%s`", k.Type[len(k.Name)+1:])
	}
	want.WriteString(" |\n")
	page, err := os.ReadFile("webhooks.md")
	require.NoError(t, err)
	require.Contains(t, string(page), want.String())
}

// TestDocumentListsEvents: each kind is in the document, with the schemas of its data.
func TestDocumentListsEvents(t *testing.T) {
	h := newFixture(t)
	var d struct {
		Kinds []struct {
			Type, Noun, Description string
			Scopes                  []string
			Data                    struct {
				AllOf []map[string]string
			}
		} `json:"x-event-kinds"`
		Schemas map[string]struct {
			Properties map[string]map[string]any
		} `json:"x-event-schemas"`
	}
	require.NoError(t, json.Unmarshal([]byte(h.call("", "GET", "/openapi.json", "").text), &d))
	var types []string
	for _, k := range d.Kinds {
		types = append(types, k.Type)
		declared := control.Kinds.Find(k.Type)
		require.Equal(t, []any{declared.Name, declared.Means, declared.Scopes()}, []any{k.Noun, k.Description, k.Scopes})
		require.Len(t, k.Data.AllOf, len(declared.Data))
		for _, part := range k.Data.AllOf {
			require.Contains(t, d.Schemas, strings.TrimPrefix(part["$ref"], "#/x-event-schemas/"))
		}
	}
	require.Equal(t, slices.Sorted(slices.Values(control.Kinds.Types())), types)
	for of, s := range d.Schemas {
		for name, p := range s.Properties {
			if ref, ok := p["$ref"].(string); ok {
				require.Contains(t, d.Schemas, strings.TrimPrefix(ref, "#/x-event-schemas/"))
			} else {
				require.NotEmpty(t, p["description"], "%s.%s", of, name)
			}
		}
	}
}
