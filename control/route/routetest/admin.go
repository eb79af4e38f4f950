package routetest

import (
	"encoding/json"
	"fmt"

	"muniment.example/control/route"
)

// Admin is a route.AdminClient of a server that has one operation.
type Admin struct {
	// Operation is its method and path, as in "POST /admin/nodes".
	Operation string
	// Data is the data of its response.
	Data any
}

var _ route.AdminClient = Admin{}

// Base implements route.AdminClient.
func (Admin) Base() (string, error) { return "http://127.0.0.1:9090", nil }

// Do implements route.AdminClient.
func (a Admin) Do(method, path string, _, out any) error {
	if requested := method + " " + path; requested != a.Operation {
		return fmt.Errorf("unexpected request %s: want %s", requested, a.Operation)
	}
	text, err := json.Marshal(a.Data)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}
