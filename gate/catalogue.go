package gate

import (
	"strconv"
	"strings"
)

// Catalogue is the tables as a document: which fields of a delivery are read, what refuses it,
// what keeps it from being billed, and the limits, each with its source.
type Catalogue struct {
	// Gate is Version, and Ruleset RulesetHash, as in every receipt's event.
	Gate    string `json:"gate"`
	Ruleset string `json:"ruleset"`
	// Substrates, each with the codes of its rules and the reasons of its suppressions.
	Substrates   []Surface     `json:"substrates"`
	Refusals     []Refusal     `json:"refusals"`
	Suppressions []Suppression `json:"suppressions"`
	Limits       []Limit       `json:"limits"`
	Fields       []Field       `json:"fields"`
}

// Surface is a substrate with the rows that hold on it.
type Surface struct {
	Substrate    Substrate `json:"substrate"`
	Refusals     []string  `json:"refusals"`
	Suppressions []string  `json:"suppressions"`
}

// Refusal is a rule that refuses. It does when one of its conditions holds.
type Refusal struct {
	Code       string      `json:"code"`
	Rule       string      `json:"rule"`
	Substrates []Substrate `json:"substrates"`
	Fields     []string    `json:"fields"`
	Conditions []Condition `json:"conditions"`
	Reference  string      `json:"reference"`
}

// Suppression is a reason for which a delivery is recorded and not billed: when one of its
// conditions holds.
type Suppression struct {
	Reason     string      `json:"reason"`
	Substrates []Substrate `json:"substrates"`
	Conditions []Condition `json:"conditions"`
	Reference  string      `json:"reference"`
}

// Condition holds when all of When do and none of Unless. One without When holds unless
// something is stated.
type Condition struct {
	When   []string `json:"when"`
	Unless []string `json:"unless"`
	// On are the row's substrates that it holds on, where those are not all.
	On []Substrate `json:"on,omitempty"`
	// What a violation by it reports; empty for suppressions. {observed} stands for what was sent,
	// {right} for the right's substrate and {limit} for its scope.maxSpeedMph.
	Field    string   `json:"field,omitempty"`
	Required string   `json:"required,omitempty"`
	Message  string   `json:"message,omitempty"`
	Limit    *float64 `json:"limit,omitempty"`
	Unit     string   `json:"unit,omitempty"`
}

// Limit is a number that draws a line.
type Limit struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Meaning string  `json:"meaning"`
}

// NewCatalogue writes the tables anew, for the caller to keep.
func NewCatalogue() Catalogue {
	c := Catalogue{Gate: Version, Ruleset: RulesetHash(), Limits: limits(), Fields: allFields()}
	facts := readings()
	for i := range rules {
		r := &rules[i]
		row := Refusal{Code: r.Code, Rule: r.ID, Substrates: r.On.list(), Reference: r.Reference}
		for _, f := range r.Fields {
			row.Fields = append(row.Fields, f.path())
		}
		for j := range r.Terms {
			one := r.Terms[j].describe(r.On, &facts)
			r.addDetail(&r.Terms[j], &one)
			row.Conditions = append(row.Conditions, one)
		}
		c.Refusals = append(c.Refusals, row)
	}
	for i := range suppressions {
		s := &suppressions[i]
		row := Suppression{Reason: s.Reason.String(), Substrates: s.On.list(), Reference: s.Reference}
		for j := range s.Terms {
			row.Conditions = append(row.Conditions, s.Terms[j].describe(s.On, &facts))
		}
		c.Suppressions = append(c.Suppressions, row)
	}
	for s := range Substrate(Substrates) {
		one := Surface{Substrate: s}
		for i := range rules {
			if rules[i].On.has(s) {
				one.Refusals = append(one.Refusals, rules[i].Code)
			}
		}
		for i := range suppressions {
			if suppressions[i].On.has(s) {
				one.Suppressions = append(one.Suppressions, suppressions[i].Reason.String())
			}
		}
		c.Substrates = append(c.Substrates, one)
	}
	return c
}

// describe is the term of a row that is on set, in words.
func (t *term) describe(set surfaces, facts *[factCount][]reading) Condition {
	words := func(list []fact) []string {
		all := []string{}
		for _, f := range list {
			var ways []string
			for _, r := range facts[f] {
				ways = append(ways, r.words)
			}
			all = append(all, strings.Join(ways, " or "))
		}
		return all
	}
	c := Condition{When: words(t.All), Unless: words(t.None)}
	var on surfaces
	for s := range Substrate(Substrates) {
		if t.visible(set, s) {
			on |= 1 << s
		}
	}
	if on != set {
		c.On = on.list()
	}
	return c
}

// addDetail adds to c what a violation by the term reports.
func (r *rule) addDetail(t *term, c *Condition) {
	detail := r.detail(t)
	c.Field, c.Required, c.Message = detail.Field.path(), detail.Required, detail.Message
	if l := detail.Limit; l != nil {
		c.Unit = "mph"
		if !l.OfRight {
			mph := l.Mph
			c.Limit = &mph
			fill := strings.NewReplacer("{limit}", strconv.FormatFloat(mph, 'f', -1, 64))
			c.Required, c.Message = fill.Replace(c.Required), fill.Replace(c.Message)
		}
	}
}

// limits are those of thresholds.go.
func limits() []Limit {
	return []Limit{
		{"drivingMph", drivingMph, "mph", "The speed from which a vehicle counts as driven. A right may draw a lower line by scope.maxSpeedMph."},
		{"deepFadeDb", deepFadeDb, "dB", "The attenuation by weather above which a link that is not acquired is not believed."},
		{"shownMs", shownMs, "ms", "The dwell below which nothing was shown: half a millisecond."},
		{"audibleBarMs", audibleBarMs, "ms", "The dwell that sound needs to count as heard."},
		{"videoBarMs", videoBarMs, "ms", "The dwell that video, which is what reports a completionState, needs to be billed as viewable."},
		{"displayBarMs", displayBarMs, "ms", "The dwell that anything else needs to be billed as viewable."},
		{"maxNumber", maxNumber, "", "The most that a number of telemetry may be, either side of zero."},
		{"maxTextBytes", maxTextBytes, "bytes", "The most that a text of telemetry may have, in UTF-8."},
	}
}
