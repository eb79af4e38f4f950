package gate

import "cmp"

// rule is a row of the table of refusals.
type rule struct {
	Code, ID string
	On       surfaces
	Terms    []term

	// What a violation reports, unless the term that fired has a Detail of its own.
	Fields            []field // the inputs; the first is the one to highlight
	Required, Message string
	Reference         string // what justifies the direction of the rule

	// Example, merged into the telemetry of a substrate's own example (RFC 7396), makes the
	// rule refuse it. {other} is a substrate that the right is not for.
	Example string
}

// suppression is a row of the table of what is not billed.
type suppression struct {
	Reason Reason
	On     surfaces
	Terms  []term

	Reference string // what justifies it
}

// term holds when all of All and none of None are stated. One without All is
// triggered by absence, and is therefore left out for ANY.
type term struct {
	All, None facts
	NotAny    bool     // left out for ANY: too generic a sign of this substrate
	Only      surfaces // holds on these of the row's substrates; zero: on all of them
	Detail    *detail  // what a violation reports instead
}

type facts []fact

// detail is what a violation reports of its cause. An empty text is the rule's. In Required and
// Message, {observed} is the value of Field, {limit} the limit, {right} the right's substrate.
type detail struct {
	Field             field
	Required, Message string
	Limit             *limit // of numeric terms
}

// limit is a speed limit that was broken: a number, or the cap of the right.
type limit struct {
	Mph     float64
	OfRight bool
}

func (t *term) forMinors() bool { return setOf(t.All).has(minorTrue) }
func (t *term) holds(stated factSet) bool {
	return stated&setOf(t.All) == setOf(t.All) && stated&setOf(t.None) == 0
}

// visible says whether a term of a row that is on set counts on s.
func (t *term) visible(set surfaces, s Substrate) bool {
	if !set.has(s) || t.Only != 0 && !t.Only.has(s) {
		return false
	}
	return s != Any || len(t.All) > 0 && !t.NotAny
}

// detail returns what a violation by one of the rule's terms reports.
func (r *rule) detail(t *term) detail {
	d := detail{Field: r.Fields[0]}
	if t.Detail != nil {
		d = *t.Detail
	}
	d.Required = cmp.Or(d.Required, r.Required)
	d.Message = cmp.Or(d.Message, r.Message)
	return d
}
