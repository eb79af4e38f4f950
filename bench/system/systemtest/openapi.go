package systemtest

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/bench/system"
	"muniment.example/control/route/routetest"
)

// Example is what was sent and what was answered, where that is JSON.
type Example struct {
	Request json.RawMessage `json:"request,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// Documented is an operation as the document has it.
type Documented struct {
	Operation
	parameters []parameter
	bodyIDs    []string // the members of its body that are named as ids, those of inner objects among them
	Shown      Example
}

// parameter is one that an operation takes.
type parameter struct {
	Name, In string
	Required bool
}

// Document is the OpenAPI document of a service, by the ids of its operations.
func Document(t *testing.T, server *system.Server) map[string]Documented {
	t.Helper()
	text := Call(t, server.API, "", Operation{Method: "GET", Path: "/openapi.json"})
	require.Equal(t, 200, text.Status, "without a key")
	type media struct {
		Required bool
		Content  map[string]struct {
			Example json.RawMessage
			Schema  schema
		}
	}
	var spec struct {
		Paths map[string]map[string]struct {
			OperationID string
			Scope       string   `json:"x-required-scope"`
			Effects     []Effect `json:"x-effects"`
			Parameters  []parameter
			RequestBody media
			Responses   map[string]media
		}
		Components struct{ Schemas map[string]schema }
	}
	require.NoError(t, json.Unmarshal([]byte(text.Body), &spec))
	const kind = "application/json"
	known := map[string]Documented{}
	for path, item := range spec.Paths {
		for method, o := range item {
			known[o.OperationID] = Documented{
				Operation{Id: o.OperationID, Method: strings.ToUpper(method), Path: path, Scope: o.Scope, Effects: o.Effects, bodiless: !o.RequestBody.Required},
				o.Parameters, o.RequestBody.Content[kind].Schema.ids(spec.Components.Schemas),
				Example{o.RequestBody.Content[kind].Example, o.Responses["200"].Content[kind].Example},
			}
		}
	}
	return known
}

// named are the statuses that the document names: that of the first service that a test
// called, as all are one program.
var named struct {
	sync.Mutex
	operations routetest.Operations
}

// checkStatus requires that the document names the status of an operation's response. It
// passes over what is answered while no service has answered with its document.
func checkStatus(t *testing.T, url, method, target string, status int) {
	t.Helper()
	named.Lock()
	defer named.Unlock()
	if named.operations == nil {
		resp, err := http.Get(url + "/openapi.json")
		if err != nil {
			return
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err == nil && resp.StatusCode == 200 {
			named.operations, err = routetest.Documented(text)
			require.NoError(t, err)
		}
	}
	named.operations.Check(t, method, target, status)
}

// schema is as much of a JSON Schema as leads to the names of an object's members.
type schema struct {
	Ref        string `json:"$ref"`
	Properties map[string]schema
	Items      *schema
	AllOf      []schema
}

// ids are the members that are named as ids, in all depths.
func (s schema) ids(known map[string]schema) (names []string) {
	if s.Ref != "" {
		s = known[path.Base(s.Ref)]
	}
	for name, inner := range s.Properties {
		if strings.HasSuffix(name, "Id") || strings.HasSuffix(name, "Ids") {
			names = append(names, name)
		}
		names = append(names, inner.ids(known)...)
	}
	if s.Items != nil {
		names = append(names, s.Items.ids(known)...)
	}
	for _, part := range s.AllOf {
		names = append(names, part.ids(known)...)
	}
	slices.Sort(names)
	return names
}
