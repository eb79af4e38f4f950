package faults

import (
	"encoding/json"
	"testing"

	"muniment.example/bench/system/systemtest"
	"muniment.example/sealer"
)

// inLog counts the receipts in a data folder's log, by id.
func inLog(t *testing.T, data string) map[string]int {
	t.Helper()
	found := map[string]int{}
	systemtest.ScanLog(t, data, func(e sealer.Entry) error {
		parts, err := sealer.SplitDelivery(e.Event)
		if err != nil {
			return nil // an event of another type
		}
		var receipt struct{ ReceiptID string }
		err = json.Unmarshal(parts.Receipt, &receipt)
		found[receipt.ReceiptID]++
		return err
	})
	return found
}
