package api

// A node that signs for no tenant of the sandbox has control's own node issue the rows of their
// batches.

// MostSandboxRows is the most that one SandboxRows has, so that it fits what control reads of a
// body: their JSON has at most MostHeldBytes, too.
const MostSandboxRows = 250

// SandboxRows makes control issue rows of one caller's batch.
type SandboxRows struct {
	TenantID string `json:"tenantId" maxLength:"64"`
	KeyID    string `json:"keyId" maxLength:"64"`
	// Vendor is that of rows which name none.
	Vendor string `json:"vendor,omitempty" maxLength:"512"`
	// IdempotencyKey is the batch's header; nil: it has none.
	IdempotencyKey *string `json:"idempotencyKey,omitempty" maxLength:"65536"`
	// Rows are their JSON: texts, not values, so that they stay unchanged.
	Rows []string `json:"rows" maxItems:"250"`
}

// SandboxRowsIssued is the answer: one result for each row, in their order.
type SandboxRowsIssued struct {
	Results []SandboxRow `json:"results"`
}

// SandboxRow is the result of a row, as issue.RowResult has it.
type SandboxRow struct {
	Status string    `json:"status"`
	Event  string    `json:"event,omitempty"`
	First  int       `json:"first,omitempty"`
	Held   *HeldRow  `json:"held,omitempty"`
	Error  *RowError `json:"error,omitempty"`
}
