package pack

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
	"muniment.example/sealer/settlement"
)

// TestLargestHeader: the header of a full pack whose deliveries all differ, by as many and as long rules as a tenant
// may have, is short enough to be sealed.
func TestLargestHeader(t *testing.T) {
	const entries, rules = MaxEntries, 1000
	id := func(prefix string, n int) string { return prefix + fmt.Sprintf("%026d", n) }
	h := Header{
		Checkpoint: strings.Repeat("c", 1000), Count: entries, Directory: []byte(`{"keys":[` + strings.Repeat("k", 1<<20) + `]}`), PackID: id("ppk_", 1), SealedAt: time.Unix(0, 0).UTC(),
		SigningKeyID: strings.Repeat("k", 32), TenantID: id("tnt_", 1), TreeSize: entries, Settlement: new(settlement.Settlement),
	}
	shares := make([]string, 10)
	for i := range shares {
		shares[i] = "922337203685.477581"
	}
	for n := range entries {
		h.Metering = append(h.Metering, MeterRow{
			RightID: id("rgh_", n), Substrate: "AUTOMOTIVE", BasisID: id("bas_", n), MeteringBasis: "delivered", Reason: sealer.ReasonMetered, Receipts: entries, QuantityMs: 1 << 53, Impressions: 1 << 62,
		})
		h.Settlement.Lines = append(h.Settlement.Lines, settlement.Line{
			RuleID: id("rule_", n%rules), RightID: id("rgh_", n), MeteringBasis: "delivered", Receipts: entries, QuantityMs: 1 << 53, Impressions: 1 << 62, Amount: "9223372036854.775807", Shares: shares,
		})
	}
	long := strings.Repeat("\\u0001", 256)
	record := fmt.Appendf(nil, `{"match":{"campaign":"%s","label":{"name":"%s","value":"%s"}},"more":"%s"}`, long, long[:64*6], long, strings.Repeat("m", 4000))
	for n := range rules {
		h.Settlement.Rules = append(h.Settlement.Rules, settlement.Rule{Leaf: uint64(n), Record: bytes.Clone(record)})
	}
	size := len(h.Append(nil))
	require.Less(t, size, maxHeaderBytes)
	require.Greater(t, size, maxHeaderBytes/2, "else this header is not a large one")
}
