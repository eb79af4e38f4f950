package api

import (
	"encoding/json"
	"slices"
	"strings"
)

// KeyUses are counts of requests by API keys: see gateway/keyuse.
type KeyUses struct {
	Used    []KeyUse   `json:"used,omitempty" maxItems:"500"`
	Refused []Refusals `json:"refused,omitempty" maxItems:"200"`
}

// The most of each in one KeyUses: a body of control's has at most 10,000 names and values.
const (
	MostKeyUses  = 500
	MostRefusals = 200
)

// KeyUse is the last use of a key.
type KeyUse struct {
	KeyID    string `json:"keyId" maxLength:"64"`
	TenantID string `json:"tenantId" maxLength:"64"`
	Minute   int64  `json:"minute" minimum:"0"` // of Unix time
}

// Refusals are refused requests that have all of this in common. Without an operation it is what a key has besides those
// that are counted one by one, and without a key what the tenant has; nothing else is set then but the counts.
type Refusals struct {
	TenantID  string `json:"tenantId" maxLength:"64"`
	KeyID     string `json:"keyId,omitempty" maxLength:"64"`
	Operation string `json:"operation,omitempty" maxLength:"64"`
	Status    int    `json:"status,omitempty" minimum:"0" maximum:"599"`
	Code      Code   `json:"code,omitempty" maxLength:"32"`
	Cause     string `json:"cause,omitempty" maxLength:"256"`
	Count     int64  `json:"count" minimum:"1"`
	First     int64  `json:"first" minimum:"0"` // minutes of Unix time
	Last      int64  `json:"last" minimum:"0"`
	RequestID string `json:"requestId,omitempty" maxLength:"64"` // of the last
	Sandbox   bool   `json:"sandbox,omitempty"`
}

// The operations of Refusals that nodes name, of which the last three are not in the OpenAPI document. OperationForwarded is a request that a node refused before
// control has seen it, OperationUnmatched one of an unknown path or method.
const (
	OperationDelivery  = "observe-delivery"
	OperationBatch     = "ingest-batch"
	OperationPlayer    = "broadsign"
	OperationForwarded = "forwarded"
	OperationUnmatched = "unmatched"
)

// Empty says whether nothing is counted.
func (u KeyUses) Empty() bool { return len(u.Used) == 0 && len(u.Refused) == 0 }

// maxCause is the longest Cause, in bytes.
const maxCause = 256

// Cause is what is known of the error besides its code, in the service's own names: the reason, the scopes that the
// key lacks, the first rule of the gate that is broken, or the field of a delivery that is wrong, or any that is missing. It has nothing that a
// caller has written. Empty: nothing more.
func (e *Error) Cause() string {
	switch {
	case e.Reason != "":
		return string(e.Reason)
	case len(e.RequiredScopes) > 0:
		return clip(strings.Join(e.RequiredScopes, " "), maxCause-len("…"))
	case len(e.Violations) > 0:
		var broken []struct {
			Code string `json:"code"`
		}
		if json.Unmarshal(e.Violations, &broken) == nil && len(broken) > 0 {
			return broken[0].Code
		}
	case len(e.ValidationErrors) > 0:
		first := e.ValidationErrors[0]
		if name := first.Field[strings.LastIndexByte(first.Field, '.')+1:]; first.Kind == FaultMissing || slices.Contains(ObservationNames.names, first.Field) {
			return clip(name, maxCause-len("…")) // of any other the caller may have chosen the name
		}
	}
	return ""
}
