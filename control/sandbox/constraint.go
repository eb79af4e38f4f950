package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"muniment.example/gate"
	"muniment.example/gateway/api"
)

// scenario is a delivery that the gate refuses.
type scenario struct {
	substrate gate.Substrate
	attempt   Attempt
}

var scenarios = map[string]scenario{
	"messaging-optout":        {gate.Messaging, Attempt{"sms-thread", 4200, json.RawMessage(`{"optOut":true}`)}},
	"automotive-speed":        {gate.Automotive, Attempt{"center-display", 8200, json.RawMessage(`{"speedMph":42}`)}},
	"drone-remote-id-missing": {gate.Drone, Attempt{"swarm-7", 15_000, json.RawMessage(`{"remoteIdActive":false}`)}},
}

// Attempt is a delivery that was attempted.
type Attempt struct {
	SpatialAnchorID string          `json:"spatialAnchorId" doc:"Where it would have been shown."`
	DwellMs         float64         `json:"dwellMs"`
	Telemetry       json.RawMessage `json:"telemetry" doc:"What the device observed."`
}

// Constraint is the gate's decision, and the response that POST /v1/delivery would send.
type Constraint struct {
	Scenario   string           `json:"scenario" doc:"The scenario of the request."`
	Substrate  string           `json:"substrate"`
	Gate       string           `json:"gate" doc:"The version of the rules."`
	Delivery   Attempt          `json:"delivery" doc:"The delivery that was attempted."`
	Refused    bool             `json:"refused" doc:"Always true."`
	Status     int              `json:"status" doc:"The status with which POST /v1/delivery responds to it."`
	Error      api.Code         `json:"error" doc:"The error code of that response."`
	Message    string           `json:"message"`
	Violations []gate.Violation `json:"violations" doc:"Every rule that refused the delivery."`
	Receipt    *string          `json:"receipt" doc:"Always null: nothing was signed."`
}

// Scenario names what is wrong with the delivery.
type Scenario struct {
	Scenario string `json:"scenario" enum:"messaging-optout,automotive-speed,drone-remote-id-missing" doc:"What is wrong with the delivery."`
}

type constraintInput struct{ Body Scenario }

// constraintDemo evaluates a delivery with the gate's rules, on a right without limits of its own.
// It neither needs a right of the tenant nor changes anything.
func (s *demo) constraintDemo(_ context.Context, in *constraintInput) (Constraint, error) {
	scenario, name := scenarios[in.Body.Scenario], in.Body.Scenario
	var observed gate.Telemetry
	faults, err := observed.Decode(jsontext.NewDecoder(strings.NewReader(string(scenario.attempt.Telemetry))), nil)
	if err != nil || len(faults) > 0 {
		return Constraint{}, fmt.Errorf("cannot read the telemetry of the scenario %s: %v %w", name, faults, err)
	}
	on := gate.Right{Substrate: scenario.substrate}
	verdict := gate.Evaluate(&on, &observed, scenario.attempt.DwellMs)
	violations := verdict.Violations(&on, &observed)
	return Constraint{
		Scenario: name, Substrate: verdict.Substrate.String(), Gate: gate.Version, Delivery: scenario.attempt, Refused: verdict.Refused(),
		Status: http.StatusPreconditionFailed, Error: api.PreconditionFailed, Message: gate.ConstraintMessage(verdict.Substrate, len(violations)),
		Violations: violations,
	}, nil
}
