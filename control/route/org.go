package route

import (
	"github.com/danielgtaylor/huma/v2"

	"muniment/gateway/api"
)

// OrgID is the id of an organisation as a caller gives it. Anything else is
// VALIDATION_FAILED, with its field: who holds his own right may not offer it to himself
// under a name that only a blank tells from his.
type OrgID string

// Schema implements huma.SchemaProvider.
func (OrgID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, MaxLength: new(68), Pattern: api.OrgIDPattern}
}
