package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Violation is one rule that refuses a delivery, as it is sent to the caller. Code,
// Rule, Field and the order of violations are stable within Version; Message is
// for people and may change.
type Violation struct {
	Code      string    `json:"code"`
	Rule      string    `json:"rule"`
	Substrate Substrate `json:"substrate"` // the effective one
	Field     string    `json:"field"`     // the input to highlight
	Fields    []string  `json:"fields"`    // every input of the rule, Field first
	// Observed is what the gate read in Field, as JSON: null when it is absent, and
	// "present" in place of a value derived from eyes.
	Observed  jsontext.Value `json:"observed"`
	Required  string         `json:"required"`
	Message   string         `json:"message"`
	Reference string         `json:"reference"`
	Unit      string         `json:"unit,omitempty"`  // with Limit
	Limit     *float64       `json:"limit,omitempty"` // the limit that was broken, of numeric rules
	// TightenedBy is "minorMode" when the rule fired for that reason only.
	TightenedBy string `json:"tightenedBy,omitempty"`
}

// Violations returns every rule that refused, in the order of the table, or nil. r and t are
// those that were evaluated.
func (v Verdict) Violations(r *Right, t *Telemetry) []Violation {
	var list []Violation
	for i := range rules {
		if v.all.refusals()&(1<<i) != 0 {
			list = append(list, v.violation(i, r, t))
		}
	}
	return list
}

func (v Verdict) violation(i int, r *Right, t *Telemetry) Violation {
	rule := &rules[i]
	cause := v.cause(rule)
	observed := t.observed(cause.Field)
	x := Violation{
		Code: rule.Code, Rule: rule.ID, Substrate: v.Substrate,
		Field: cause.Field.path(), Fields: []string{cause.Field.path()},
		Observed: observed, Reference: rule.Reference,
	}
	for _, f := range rule.Fields {
		if f != cause.Field {
			x.Fields = append(x.Fields, f.path())
		}
	}
	if v.minorOnly.refusals()&(1<<i) != 0 {
		x.TightenedBy = fields[minorMode].name
		if !slices.Contains(rule.Fields, minorMode) {
			x.Fields = append(x.Fields, minorMode.path())
		}
	}
	limit := ""
	if cause.Limit != nil {
		mph := cause.Limit.Mph
		if cause.Limit.OfRight {
			mph = r.MaxSpeedMph
		}
		x.Unit, x.Limit = "mph", &mph
		limit = string(jsontext.AppendFloat(nil, mph, 64))
	}
	fill := strings.NewReplacer("{observed}", plain(observed), "{limit}", limit, "{right}", r.Substrate.String())
	x.Required, x.Message = fill.Replace(cause.Required), fill.Replace(cause.Message)
	return x
}

// cause returns the detail of the first term that holds.
func (v Verdict) cause(rule *rule) detail {
	for i := range rule.Terms {
		if t := &rule.Terms[i]; t.visible(rule.On, v.Substrate) && t.holds(v.stated) {
			return rule.detail(t)
		}
	}
	return rule.detail(&term{})
}

// observed returns what a violation may show of a field.
func (t *Telemetry) observed(f field) jsontext.Value {
	switch {
	case !t.given.has(f):
		return jsontext.Value("null")
	case fields[f].class == eye:
		return jsontext.Value(`"present"`)
	}
	return t.appendValue(nil, f)
}

// plain returns a JSON value for a sentence: a string without its quotes.
func plain(v jsontext.Value) string {
	if v.Kind() != jsontext.KindString {
		return string(v)
	}
	text, _ := jsontext.AppendUnquote(nil, v) // it was quoted here
	return string(text)
}

// AppendJSON appends the violation as it is sent to the caller.
func (x *Violation) AppendJSON(dst []byte) []byte {
	dst = appendMember(dst, `{"code":`, x.Code)
	dst = appendMember(dst, `,"rule":`, x.Rule)
	dst = appendMember(dst, `,"substrate":`, x.Substrate.String())
	dst = appendMember(dst, `,"field":`, x.Field)
	for i, f := range x.Fields {
		name := `,`
		if i == 0 {
			name = `,"fields":[`
		}
		dst = appendMember(dst, name, f)
	}
	dst = append(dst, `],"observed":`...)
	dst = append(dst, x.Observed...)
	dst = appendMember(dst, `,"required":`, x.Required)
	dst = appendMember(dst, `,"message":`, x.Message)
	dst = appendMember(dst, `,"reference":`, x.Reference)
	if x.Limit != nil {
		dst = appendMember(dst, `,"unit":`, x.Unit)
		dst = append(dst, `,"limit":`...)
		dst = jsontext.AppendFloat(dst, *x.Limit, 64)
	}
	if x.TightenedBy != "" {
		dst = appendMember(dst, `,"tightenedBy":`, x.TightenedBy)
	}
	return append(dst, '}')
}

func appendMember(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst, _ = jsontext.AppendQuote(dst, value) // valid UTF-8: from the tables, or checked by the decoder
	return dst
}

// ConstraintMessage is the message of a refusal with n violations.
func ConstraintMessage(s Substrate, n int) string {
	if n == 1 {
		return fmt.Sprintf("delivery refused by the %s constraint gate: 1 violation", s)
	}
	return fmt.Sprintf("delivery refused by the %s constraint gate: %d violations", s, n)
}
