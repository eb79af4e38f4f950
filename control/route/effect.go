package route

import "muniment.example/gateway/api"

// Effect is what an operation does to something that another scope than its own guards. The key needs
// what the effect needs besides the operation's scope. An operation without effects changes, and
// lets out, only what its own scope guards.
type Effect struct {
	// Does completes the sentence "The operation ...": "issues a right".
	Does string
	// Scope is what the effect needs. 0: Needs says it, as it depends on the request, and the operation
	// checks it itself.
	Scope api.Scope
	// Needs is what the effect needs, in words. Default: the scope.
	Needs string
	// Sometimes says that the operation does it in some requests only, and requires the scope itself,
	// before it looks for anything. Otherwise package control requires it before the request is read.
	Sometimes bool
}

// Need is what the effect needs, for readers.
func (e Effect) Need() string {
	if e.Needs != "" {
		return e.Needs
	}
	return "`" + e.Scope.String() + "`"
}

// requirer is a caller: auth.Principal.
type requirer interface{ Require(api.Scope) error }

// RequireEffects requires the scopes of the effects that the operation always has.
func (op *Operation) RequireEffects(caller requirer) error {
	for _, e := range op.Effects {
		if e.Scope != 0 && !e.Sometimes {
			if err := caller.Require(e.Scope); err != nil {
				return err
			}
		}
	}
	return nil
}
