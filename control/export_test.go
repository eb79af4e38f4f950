package control

import "github.com/danielgtaylor/huma/v2"

// Declared are the operations of all handlers: of callers, operators and nodes.
func (c *Control) Declared() []*huma.OpenAPI {
	return []*huma.OpenAPI{c.callers.api.OpenAPI(), c.admin.api.OpenAPI(), c.nodes.api.OpenAPI()}
}

// Glossary describes members wherever they are.
var Glossary = glossary
