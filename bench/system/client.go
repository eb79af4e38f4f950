package system

import "muniment.example/deploy/adminapi"

// Client calls the service with the key of a tenant, or with the token of its operators. It is the one of operators' commands.
type Client = adminapi.Client

// Refused is an answer other than 200 to such a call.
type Refused = adminapi.Refused
