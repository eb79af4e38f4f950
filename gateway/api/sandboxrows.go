package api

// A node that signs for no tenant of the sandbox has control's own node issue the rows of their
// batches.

// SandboxRows makes control issue rows of one caller's batch: as many, and as long, as HoldRequest
// may have.
type SandboxRows struct {
	TenantID string `json:"tenantId" maxLength:"64"`
	KeyID    string `json:"keyId" maxLength:"64"`
	// Vendor is that of rows which name none.
	Vendor string `json:"vendor,omitempty" maxLength:"512"`
	// Rows are their JSON: texts, not values, so that they stay unchanged.
	Rows []string `json:"rows" maxItems:"250"`
}

// SandboxRowsIssued is the answer: one result for each row, in their order, or why there are none.
type SandboxRowsIssued struct {
	Results []SandboxRow `json:"results,omitempty"`
	// Refused is what the caller is told: that its key is not valid any more, or that nothing can
	// be issued now.
	Refused *RowError `json:"refused,omitempty"`
	// Status and RetryAfter are those of Refused, in seconds.
	Status     int `json:"status,omitempty"`
	RetryAfter int `json:"retryAfter,omitempty"`
}

// SandboxRow is the result of a row, as issue.RowResult has it.
type SandboxRow struct {
	Status string    `json:"status"`
	Event  string    `json:"event,omitempty"`
	First  int       `json:"first,omitempty"`
	Held   *HeldRow  `json:"held,omitempty"`
	Error  *RowError `json:"error,omitempty"`
}
