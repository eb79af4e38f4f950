package route

import "github.com/danielgtaylor/huma/v2"

// Time is a time as a caller gives it in a body; store.Given reads it. The document does not
// call it a date-time, as that is RFC 3339 alone, and callers may write more.
type Time string

// Schema implements huma.SchemaProvider.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeString, MaxLength: new(64), Examples: []any{"2026-11-01T12:00:00Z"},
		Description: "A date or a time of ISO 8601, with its offset from UTC.",
	}
}
