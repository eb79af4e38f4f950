package requests

import "muniment.example/control/store"

// Tables are those of this package. A request's id may be one that its caller has chosen, and is deleted after a day.
var Tables = store.Tables{
	{Name: "refused_requests", Personal: &store.Personal{Passing: []string{"last_request"}}},
	{Name: "key_uses"},
}
