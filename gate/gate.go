// Package gate decides one observed delivery against one right.
//
// It holds the vocabulary (Substrate, Telemetry, Right, Verdict, Violation,
// Metering) and the rules, and the rules are data: rules.go is the table of
// refusals, suppress.go the table of what is recorded but not billed, field.go
// the table of telemetry fields, thresholds.go every number that draws a line,
// examples.go a delivery for each substrate. Adding a rule means adding a row.
// NewCatalogue and Examples write the tables as documents.
//
// There are three outcomes, never mixed. A delivery is refused (no receipt), or
// it is suppressed (a receipt, nothing to bill), or it is metered. Before that
// stands validation: Telemetry.Decode reports faults, and a caller that has got
// any must not go on to Evaluate.
//
// The decisions behind the tables:
//
//   - Absence refuses only where the law makes a positive state a precondition
//     of operating at all. That is Remote ID, so DRONE is the only substrate that
//     refuses empty telemetry. Where evidence of safety or consent is missing
//     elsewhere, the render passes and earns nothing.
//   - Of two contradicting fields the worse one decides.
//   - What the right says may tighten a rule, never loosen it.
//   - All violations are reported, in the order of the table.
//   - Minor mode only adds violations and only removes data.
//   - A right for ANY is under every rule for which there is explicit evidence,
//     so it is never a way round a rule.
//   - Personal fields are read here and then dropped, unless their own consent
//     is given: see AppendProjection.
//
// The package is pure: it has no clock, does no I/O, keeps no state, and may be
// called from any number of goroutines. A Telemetry belongs to one goroutine at
// a time. Decode, Evaluate, Meter and AppendProjection do not allocate once the
// buffers of their Telemetry have grown; only a refusal builds strings.
//
// Not in gate.v1 on purpose: an exemption for passenger seats, flight phases,
// bridge displays, quiet hours. Each would need a field that no one audits, and
// an unaudited exemption is a way round the gate. The format of a BVLOS waiver
// is not checked either, because authorities differ. Duplicates are the
// ledger's affair.
package gate

// Version names this set of codes, rule names, fields and their order. None of
// these may change within a version; messages may.
const Version = "gate.v1"
