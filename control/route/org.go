package route

import (
	"github.com/danielgtaylor/huma/v2"

	"muniment.example/gateway/api"
)

// OrgID is the id of an organisation in a request. Anything else is VALIDATION_FAILED, so that two
// names can't differ only by a blank.
type OrgID string

// Schema implements huma.SchemaProvider.
func (OrgID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, MaxLength: new(68), Pattern: api.OrgIDPattern}
}

// Reason is the optional body of an action that takes a reason.
type Reason struct {
	Reason *string `json:"reason,omitempty" nullable:"true" maxLength:"1024" doc:"Kept permanently in the audit log: must not contain personal data."`
}

// Text is the reason; nil if there is none.
func (r *Reason) Text() *string {
	if r == nil {
		return nil
	}
	return r.Reason
}
