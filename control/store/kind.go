package store

import (
	"strings"

	"muniment.example/gateway/api"
)

// Noun is what the kinds of events of one package are about: their types begin with its name. A
// package declares its nouns and kinds as variables and lists the nouns for control.Kinds:
//
//	var offerEvents = &store.Noun{Name: "offer", Scope: api.OffersRead}
//	var offerExpired = offerEvents.Kind("offer.expired", "Its time was over.", Offer{})
//	var Nouns = []*store.Noun{offerEvents}
//
// Events are emitted by their Kind only.
type Noun struct {
	Name string
	// Scope is the scope that reads the same from other operations, and so admits to the events. 0:
	// only audit:read does, as it does to all events.
	Scope api.Scope
	// System says that the events are about the service itself and in the log of the system's tenant:
	// no key of a tenant gets them.
	System bool

	kinds []*Kind
}

// Kind is a kind of event. Noun.Kind makes it.
type Kind struct {
	*Noun
	// Type is <noun>.<past participle>.
	Type string
	// Means says what has happened.
	Means string
	// Data are structures with the members of the event's data, each in one of them; none: the data
	// has no members.
	Data []any
}

// Kind declares a kind of event. Its type begins with the noun's name and a dot.
func (n *Noun) Kind(eventType, means string, data ...any) *Kind {
	if !strings.HasPrefix(eventType, n.Name+".") {
		panic("the kind of event " + eventType + " is not of the noun " + n.Name)
	}
	k := &Kind{Noun: n, Type: eventType, Means: means, Data: data}
	n.kinds = append(n.kinds, k)
	return k
}

// Allows says whether a key with these scopes may get events of the kind.
func (k *Kind) Allows(held api.Scopes) bool {
	return held.Allows(api.AuditRead) || k.Scope != 0 && held.Allows(k.Scope)
}

// Scopes are the names of the scopes of which a key needs one to get events of the kind.
func (k *Kind) Scopes() []string {
	if k.Scope == 0 {
		return []string{api.AuditRead.String()}
	}
	return []string{k.Scope.String(), api.AuditRead.String()}
}

// Kinds are all kinds of events, by noun.
type Kinds []*Kind

// KindsOf returns the kinds of nouns. Two packages may have a noun of one name.
func KindsOf(nouns []*Noun) (all Kinds) {
	for _, n := range nouns {
		all = append(all, n.kinds...)
	}
	return all
}

// OfTenants returns the kinds whose events are in the logs of tenants.
func (all Kinds) OfTenants() (some Kinds) {
	for _, k := range all {
		if !k.System {
			some = append(some, k)
		}
	}
	return some
}

// Find returns the kind of a tenant's events of a type; nil if there is none.
func (all Kinds) Find(eventType string) *Kind {
	for _, k := range all {
		if k.Type == eventType && !k.System {
			return k
		}
	}
	return nil
}

// Types are the types of a tenant's events.
func (all Kinds) Types() (types []string) {
	for _, k := range all.OfTenants() {
		types = append(types, k.Type)
	}
	return types
}
