package api

import (
	"encoding/json"
	"time"
)

// The responses of the gateway itself, for the OpenAPI document. The gateway decodes and
// renders deliveries from bytes, without these types; its tests use them.

// Contract is the answer to GET /v1.
type Contract struct {
	Service         string `json:"service" example:"muniment"`
	Version         string `json:"version" example:"v1.2.0" doc:"Version of the service; devel if it is not a release."`
	ContractVersion string `json:"contractVersion" example:"v1.0"`
	GateVersion     string `json:"gateVersion" example:"gate.v1" doc:"Version of the constraint gate's rules."`
	Ruleset         string `json:"ruleset" doc:"SHA-256 of the whole table of rules, base64url."`
}

// Health is the answer to GET /v1/healthz.
type Health struct {
	Status string `json:"status" enum:"ok"`
}

// Observation is the body of POST /v1/delivery.
type Observation struct {
	RightID            string          `json:"rightId" minLength:"1" maxLength:"512" doc:"The ACTIVE right that permits the delivery." example:"rgh_01M7Y45MG0YQ2E2D8Z1V5K3T9B"`
	SpatialAnchorID    string          `json:"spatialAnchorId" minLength:"1" maxLength:"512" doc:"Where it was shown." example:"screen-0042"`
	DwellMs            float64         `json:"dwellMs" minimum:"0" maximum:"68719476736" doc:"How long, in milliseconds." example:"8200"`
	SpatialPlacementID *string         `json:"spatialPlacementId,omitempty" nullable:"true" maxLength:"512" doc:"Placement within the anchor." example:"slot-3"`
	CorrelationID      *string         `json:"correlationId,omitempty" nullable:"true" maxLength:"512" doc:"The caller's own tracing id." example:"play-0001"`
	DataSubjectID      *string         `json:"dataSubjectId,omitempty" nullable:"true" minLength:"1" maxLength:"256" doc:"The person it was shown to, for export and erasure. Kept in the private part of the event, which is not hashed."`
	DataSubjectIDs     []string        `json:"dataSubjectIds,omitempty" nullable:"true" maxItems:"8" minLength:"1" maxLength:"256" doc:"More persons it was shown to, each found by export and erasure, and each erased alone. One who is named twice counts once."`
	Telemetry          json.RawMessage `json:"telemetry,omitempty" doc:"What the device observed."`
}

// Delivered is the answer to POST /v1/delivery.
type Delivered struct {
	Receipt   Receipt          `json:"receipt"`
	Substrate string           `json:"substrate" doc:"The substrate whose rules were applied."`
	Signature Signature        `json:"signature"`
	Metering  MeteringDecision `json:"metering"`
}

// IngestBatch is the JSON body of POST /v1/delivery/ingest-batch.
type IngestBatch struct {
	Vendor *string `json:"vendor,omitempty" nullable:"true" minLength:"1" maxLength:"512" doc:"The vendor of rows that name none." example:"broadsign"`
	Rows   []Row   `json:"rows" nullable:"false" maxItems:"1000" doc:"The plays, each of which has a result of its own."`
}

// Ingested is the answer to POST /v1/delivery/ingest-batch.
type Ingested struct {
	Results  []RowResult `json:"results" nullable:"false" doc:"One for each row, in their order."`
	Counts   RowCounts   `json:"counts"`
	Warnings []string    `json:"warnings,omitempty" doc:"What the sender of a document should know of its rows, such as that each of them sums up several plays."`
}

// RowResult is the outcome of one row.
type RowResult struct {
	Index  int        `json:"index" minimum:"0" doc:"The row's place in the body, from 0."`
	Status string     `json:"status" enum:"accepted,duplicate,rejected,unmapped,held" doc:"accepted: the receipt is durable. duplicate: the play was delivered before, and the receipt is that of then, where this node has it; or the row is equal to an unmapped or held one of the batch, and has its heldId. rejected: no receipt was signed. unmapped: no mapping knows the vendor's id at the time of the play; the row is held until one does. held: the right is suspended, and was not when this was played; the row is held until the right is resumed."`
	Reason HeldReason `json:"reason,omitempty" enum:"RIGHT_SUSPENDED" doc:"Of a row whose status is held: what it waits for."`
	RowID  string     `json:"rowId,omitempty" doc:"Of a row that has one: the caller's, or what its format makes it of." example:"play-0001"`
	// Receipt, Signature, Substrate and Metering are those of Delivered.
	Receipt   *Receipt          `json:"receipt,omitempty"`
	Signature *Signature        `json:"signature,omitempty"`
	Substrate string            `json:"substrate,omitempty" doc:"The substrate whose rules were applied."`
	Metering  *MeteringDecision `json:"metering,omitempty"`
	Error     *RowError         `json:"error,omitempty" doc:"Of a row that is rejected. INTERNAL_ERROR may be sent again."`
	HeldID    string            `json:"heldId,omitempty" doc:"Of a row that is unmapped or held, or equal to one." example:"hld_01M7Y45MG0YQ2E2D8Z1V5K3T9B"`
}

// RowCounts are the numbers of rows by status.
type RowCounts struct {
	Accepted  int `json:"accepted" doc:"Rows whose receipt is new."`
	Duplicate int `json:"duplicate" doc:"Rows that were delivered before, or stand in the batch twice."`
	Rejected  int `json:"rejected" doc:"Rows without a receipt."`
	Unmapped  int `json:"unmapped" doc:"Rows that are held until a mapping knows their vendor's id."`
	Held      int `json:"held" doc:"Rows that are held until their right is resumed."`
}

// Receipt is what is signed: its canonical form (RFC 8785) is the message.
type Receipt struct {
	Version            string    `json:"version" enum:"1"`
	ReceiptID          string    `json:"receiptId" example:"rcp_01M7Y45MG0TFB8B7SS8ZJ7P2KN"`
	CorrelationID      *string   `json:"correlationId"`
	SpatialAnchorID    string    `json:"spatialAnchorId"`
	SpatialPlacementID *string   `json:"spatialPlacementId"`
	IssuedAt           time.Time `json:"issuedAt"`
	RenderedAt         time.Time `json:"renderedAt" doc:"When the observation arrived; of a row of a batch, when it was played."`
	DwellMs            float64   `json:"dwellMs"`
	Nonce              string    `json:"nonce" doc:"128 random bits, base64url."`
	Witness            *string   `json:"witness" doc:"edge:<node>:<SHA-256 of the event without receipt and signature>: binds it to tenant, right, rules and metering."`
}

// Signature is over the receipt's canonical form.
type Signature struct {
	KeyID     string `json:"keyId" doc:"The key's id in the directory of verification keys."`
	Algorithm string `json:"algorithm" enum:"ed25519"`
	Value     string `json:"value" doc:"64 bytes, base64url."`
}

// MeteringDecision is what the gate decided about billing.
type MeteringDecision struct {
	Metered    bool     `json:"metered" doc:"Whether it is billed."`
	Reason     string   `json:"reason" doc:"METERED, or the first of reasons."`
	Reasons    []string `json:"reasons" nullable:"false" doc:"Every reason for which the delivery is not billed."`
	Basis      string   `json:"basis" enum:"viewable,gross,audible,delivered,none" doc:"What the quantity is of."`
	QuantityMs int64    `json:"quantityMs"`
	// Impressions and Completion are as in the event (see sealer).
	Impressions string `json:"impressions" pattern:"^(0|[1-9][0-9]*)(\\.[0-9]{0,3}[1-9])?$" doc:"A decimal: how many impressions the delivery makes. 0 if it is not billed, else the row's multiplier, or 1." example:"1"`
	Completion  string `json:"completion" enum:"none,started,first_quartile,midpoint,third_quartile,complete" doc:"How far a video was played: telemetry's completionState, none if it says nothing."`
}
