package gate_test

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gate"
)

// A car at speed is refused; parked, its delivery is billed.
func Example() {
	right, err := gate.ParseRight(gate.Automotive, []byte(`{"regions":["US"]}`))
	if err != nil {
		panic(err)
	}
	for _, text := range []string{`{"speedMph":65}`, `{"speedMph":0,"viewable":true,"gazeInView":true}`} {
		var t gate.Telemetry
		faults, err := t.Decode(jsontext.NewDecoder(strings.NewReader(text)), nil)
		if err != nil || len(faults) > 0 {
			panic("not a valid observation")
		}
		const dwellMs = 4200.5
		verdict := gate.Evaluate(&right, &t, dwellMs)
		for _, x := range verdict.Violations(&right, &t) {
			fmt.Println(x.Code, "–", x.Message)
		}
		m := verdict.Meter(&t, dwellMs)
		fmt.Println(m.Reason, m.Basis, m.QuantityMs, string(t.AppendProjection(nil)))
	}
	// Output:
	// AUTOMOTIVE_SPEED_EXCEEDED – vehicle speed 65 mph; visual renders need < 5 mph
	// GATE_REFUSED none 0 {}
	// METERED viewable 4200 {"viewable":true}
}
