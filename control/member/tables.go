package member

import "muniment.example/control/store"

// Tables are the tables of this package. Rows of link_requests belong to the system's tenant, and are deleted as soon
// as a job has looked at them. So do those of member_choices, which are deleted once their person has chosen.
var Tables = store.Tables{
	{Name: "sessions"},
	{Name: "member_links"},
	{Name: "link_requests", Personal: &store.Personal{Passing: []string{"email"}}},
	{Name: "member_choices", Personal: &store.Personal{Passing: []string{"issuer", "subject", "email"}}},
	{Name: "members", Personal: &store.Personal{
		Kind: "member", Key: []string{"member_id"}, Person: []string{"email"}, Text: []string{"name", "issuer", "subject"}, Emptied: []string{"issuer", "subject"}, About: "email", Related: []string{"name", "issuer", "subject"},
	}},
}
