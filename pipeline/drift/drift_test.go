package drift_test

import (
	"testing"

	"muniment/pipeline/conform"
)

func TestMemoryWarehouseIsAudited(t *testing.T) {
	conform.Drift(t, func(testing.TB) conform.AuditedEngine {
		w := &conform.MemoryWarehouse{}
		return conform.AuditedEngine{Warehouse: w, Auditor: w, Spoil: w.Spoiled()}
	})
}
