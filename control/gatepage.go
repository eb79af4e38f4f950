package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gate"
	"muniment.example/gateway/api"
)

// gateCatalogue is the document at /gate.json: the gate's tables, and its examples as bodies of
// POST /v1/delivery.
type gateCatalogue struct {
	gate.Catalogue
	Examples []gateExample `json:"examples"`
}

// gateExample is a delivery on one substrate, with its metering.
type gateExample struct {
	Right struct {
		Substrate gate.Substrate  `json:"substrate"`
		Scope     json.RawMessage `json:"scope,omitempty"`
	} `json:"right"`
	Delivery api.Observation `json:"delivery"`
	Metering struct {
		Metered    bool   `json:"metered"`
		Basis      string `json:"basis"`
		QuantityMs int64  `json:"quantityMs"`
	} `json:"metering"`
	// Refused has an example for each rule of the substrate.
	Refused []refusedExample `json:"refused"`
}

// refusedExample is a delivery that the rule with this code refuses. Violations has the codes of
// all rules that refuse it.
type refusedExample struct {
	Code       string          `json:"code"`
	Delivery   api.Observation `json:"delivery"`
	Violations []string        `json:"violations"`
}

func newGateCatalogue() *gateCatalogue {
	c := &gateCatalogue{Catalogue: gate.NewCatalogue()}
	for _, e := range gate.Examples() {
		one := gateExample{Delivery: observation(&e, e.Telemetry)}
		one.Right.Substrate = e.Substrate
		if e.Scope != "" {
			one.Right.Scope = json.RawMessage(e.Scope)
		}
		metering, _ := decide(&e, e.Telemetry)
		one.Metering.Metered, one.Metering.Basis, one.Metering.QuantityMs = metering.Metered, metering.Basis.String(), metering.QuantityMs
		for _, r := range e.Refused {
			_, violations := decide(&e, r.Telemetry)
			one.Refused = append(one.Refused, refusedExample{r.Code, observation(&e, r.Telemetry), violations})
		}
		c.Examples = append(c.Examples, one)
	}
	return c
}

// observation is an example as the body of a delivery, with an arbitrary right.
func observation(e *gate.Example, telemetry json.RawMessage) api.Observation {
	return api.Observation{
		RightID: "rgh_01M7Y45MG0YQ2E2D8Z1V5K3T9B", SpatialAnchorID: e.Anchor, DwellMs: e.DwellMs, SpatialPlacementID: &e.Placement, Telemetry: telemetry,
	}
}

// decide is the gate's decision on an example.
func decide(e *gate.Example, telemetry json.RawMessage) (m gate.Metering, codes []string) {
	var observed gate.Telemetry
	right, err := gate.ParseRight(e.Substrate, []byte(e.Scope))
	if err == nil {
		_, err = observed.Decode(jsontext.NewDecoder(bytes.NewReader(telemetry)), nil)
	}
	if err != nil {
		panic(fmt.Sprintf("the gate's example for %s is malformed: %v", e.Substrate, err))
	}
	verdict := gate.Evaluate(&right, &observed, e.DwellMs)
	for _, v := range verdict.Violations(&right, &observed) {
		codes = append(codes, v.Code)
	}
	return verdict.Meter(&observed, e.DwellMs), codes
}

func (c *gateCatalogue) json() ([]byte, error) {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false) // a limit reads "< 5"
	if err := to.Encode(c); err != nil {
		return nil, fmt.Errorf("cannot write the gate's catalogue: %w", err)
	}
	return b.Bytes(), nil
}

// page renders the catalogue in the page's template.
func (c *gateCatalogue) page(text, style, script string) ([]byte, error) {
	examples := map[gate.Substrate]*gateExample{}
	for i := range c.Examples {
		examples[c.Examples[i].Right.Substrate] = &c.Examples[i]
	}
	t, err := template.New("gate").Funcs(template.FuncMap{
		"join": strings.Join, "where": where, "condition": condition, "fieldType": fieldType, "number": number,
		"search": func(parts ...any) string { return strings.ToLower(fmt.Sprint(parts...)) },
		"json": func(v any) (string, error) {
			text, err := json.MarshalIndent(v, "", "  ")
			return string(text), err
		},
	}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("cannot read the gate's page: %w", err)
	}
	var b bytes.Buffer
	err = t.Execute(&b, struct {
		*gateCatalogue
		ByName map[gate.Substrate]*gateExample
		Style  template.CSS
		Script template.JS
	}{c, examples, template.CSS(style), template.JS(script)})
	if err != nil {
		return nil, fmt.Errorf("cannot write the gate's page: %w", err)
	}
	return b.Bytes(), nil
}

// where lists substrates, or names the few that are missing.
func where(list []gate.Substrate) string {
	var in, out []string
	for s := range gate.Substrate(gate.Substrates) {
		if slices.Contains(list, s) {
			in = append(in, s.String())
		} else {
			out = append(out, s.String())
		}
	}
	switch {
	case len(out) == 0:
		return "all substrates"
	case len(out) <= 6:
		return "all but " + strings.Join(out, ", ")
	}
	return strings.Join(in, ", ")
}

// condition is the text that follows "when".
func condition(c gate.Condition) string {
	text := strings.Join(c.When, " and ")
	switch unless := strings.Join(c.Unless, " or "); {
	case text == "":
		text = "always, unless " + unless
	case unless != "":
		text += ", unless " + unless
	}
	if c.On != nil {
		text += " (on " + where(c.On) + ")"
	}
	return text
}

// fieldType is a field's type with its limits.
func fieldType(f gate.Field) string {
	text := f.Type
	switch {
	case f.Values != nil:
		text = "one of"
	case f.MaxBytes > 0:
		text += fmt.Sprintf(", at most %d bytes", f.MaxBytes)
	case f.Min != nil:
		text += ", " + number(*f.Min) + " or more"
	}
	if f.Nullable {
		text += ", or null"
	}
	return text
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
