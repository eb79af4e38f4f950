package route

import "muniment.example/gateway/api"

// UnknownKind is the fault of a field that should name a kind of event, or one of the other names
// that it may have. The name is at most a few hundred bytes long.
func UnknownKind(field, name string, known []string) api.ValidationError {
	return api.ValidationError{Field: field, Message: "no kind of event has this name; the nearest is " + Nearest(name, known...)}
}
