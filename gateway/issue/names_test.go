package issue

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/gateway/api"
)

// TestNamesAreThoseThatAreRead: a misspelling is looked for among the names that the decoders
// read, no more and no fewer.
func TestNamesAreThoseThatAreRead(t *testing.T) {
	read := []string{}
	for _, file := range []string{"observation.go", "row.go"} {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "field") && spec.Names[0].Name != "fieldBody" {
				name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				read = append(read, name)
			}
			return true
		})
	}
	require.ElementsMatch(t, read, api.RowNames.All())
	require.Subset(t, read, api.ObservationNames.All())

	var o Observation
	for _, name := range api.ObservationNames.All() {
		_ = o.Decode([]byte(`{"` + name + `":{}}`))
		require.False(t, o.misspelt, "a delivery's decoder does not read %s", name)
	}
	var r row
	for _, name := range api.RowNames.All() {
		_ = r.decode([]byte(`{"`+name+`":{}}`), "")
		require.False(t, r.misspelt, "a row's decoder does not read %s", name)
	}
	for _, name := range read {
		if !slices.Contains(api.ObservationNames.All(), name) {
			require.NoError(t, o.Decode([]byte(`{`+good+`,"`+name+`":{}}`)), "a delivery's decoder reads %s", name)
		}
	}
}

// TestAMisspeltNameSaysWhatIsMeant, and that what is missing for it alone is not missed too.
func TestAMisspeltNameSaysWhatIsMeant(t *testing.T) {
	var o Observation
	e := api.From(o.Decode([]byte(`{"right_id":"rgh_1","spatialAnchorId":"a","dwellMs":1}`)))
	require.Equal(t, []api.ValidationError{{Field: "right_id", Message: "is unknown: did you mean rightId?"}}, e.ValidationErrors)
	require.Equal(t, "right_id: is unknown: did you mean rightId?", e.Message)
	require.NoError(t, o.Decode([]byte(`{`+good+`}`)), "nothing of a body may stay")
	var r row
	e = api.From(r.decode([]byte(`{`+played+`,"vendor":"acme","idType":"screen","VendorID":"7"}`), ""))
	require.Equal(t, []api.ValidationError{{Field: "VendorID", Message: "is unknown: did you mean vendorId?"}}, e.ValidationErrors)
}
