package event

import (
	"muniment.example/control/store"
	"muniment.example/gateway/api"
	"muniment.example/sealer"
)

// The events that nodes write: gateway/issue makes them.
var (
	deliveryEvents = &store.Noun{Name: "delivery"}
	_              = deliveryEvents.Kind(sealer.TypeDelivery, "A delivery was recorded, with its receipt. Webhooks get it only by its full name, in batches.", DeliveryRecorded{})

	gateEvents = &store.Noun{Name: "gate", Scope: api.MeteringRead}
	_          = gateEvents.Kind(sealer.TypeRefusals, "A node counted the deliveries that the gate refused in a period.", GateRefusals{})
)

// Nouns are the nouns of the events that nodes write.
var Nouns = []*store.Noun{deliveryEvents, gateEvents}

// DeliveryRecorded is the data of delivery.recorded.
type DeliveryRecorded struct {
	BasisID       string               `json:"basisId"`
	Gate          DeliveryGate         `json:"gate" doc:"The rules under which it was decided."`
	Idempotency   string               `json:"idempotency,omitempty" doc:"The hash of the Idempotency-Key, if one was given."`
	Identity      *DeliveryIdentity    `json:"identity,omitempty" doc:"What recognises a row of a batch."`
	Metering      api.MeteringDecision `json:"metering"`
	Receipt       api.Receipt          `json:"receipt"`
	RightID       string               `json:"rightId"`
	RightRevision int64                `json:"rightRevision" doc:"The revision of the right under which it was decided."`
	Signature     api.Signature        `json:"signature"`
	Substrate     string               `json:"substrate" doc:"The substrate whose rules were applied."`
}

// DeliveryGate names the rules of the gate.
type DeliveryGate struct {
	Ruleset string `json:"ruleset" doc:"SHA-256 of the whole table of rules, base64url."`
	Version string `json:"version" doc:"Version of the constraint gate's rules."`
}

// DeliveryIdentity recognises the row of a batch.
type DeliveryIdentity struct {
	Day  string `json:"day,omitempty" doc:"The UTC day of the play, if the row has no id of its own."`
	Hash string `json:"hash" doc:"The hash of what names the row."`
}

// GateRefusals is the data of gate.refusals.
type GateRefusals struct {
	Counts []GateRefusal `json:"counts" doc:"How many deliveries each rule refused."`
	From   string        `json:"from" doc:"When the period began."`
	To     string        `json:"to" doc:"When the period ended."`

	Unrecognised []UnrecognisedName `json:"unrecognised,omitempty" doc:"Misspelt fields of telemetry, whose values the gate did not see."`
}

// GateRefusal is how many deliveries a rule refused.
type GateRefusal struct {
	Count   int64  `json:"count" doc:"How many deliveries."`
	RightID string `json:"rightId,omitempty" doc:"The right; absent if the node had too many counts to keep."`
	Rule    string `json:"rule" doc:"The rule of the gate; beacon-… for beacon calls that were not recorded, such as beacon-prefetch or beacon-macro."`
}

// UnrecognisedName is how many deliveries had a name in their telemetry.
type UnrecognisedName struct {
	Count int64  `json:"count" doc:"How many deliveries."`
	Meant string `json:"meant" doc:"The field that the name stands for."`
	Name  string `json:"name" doc:"The name as it was sent; empty if the node had too many to keep."`
}
