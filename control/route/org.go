package route

import (
	"github.com/danielgtaylor/huma/v2"

	"muniment/gateway/api"
)

// OrgID is the id of an organisation as a caller gives it. Anything else is VALIDATION_FAILED, with
// its field, so that two names can't differ by a blank alone.
type OrgID string

// Schema implements huma.SchemaProvider.
func (OrgID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, MaxLength: new(68), Pattern: api.OrgIDPattern}
}

// Reason is the body of an action that may be given a reason. It may be absent.
type Reason struct {
	Reason *string `json:"reason,omitempty" nullable:"true" maxLength:"1024" doc:"Kept in the audit log for good: no place for personal data."`
}

// Text is the reason that was given; nil when there was none.
func (r *Reason) Text() *string {
	if r == nil {
		return nil
	}
	return r.Reason
}
