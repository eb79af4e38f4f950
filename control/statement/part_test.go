package statement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer"
)

// TestPartsThatShowLinesAlone: the signed file of a statement for one payee is handed out only if it shows nothing of the
// tenant's other rights, disputes and statements.
func TestPartsThatShowLinesAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		add   func(*sealer.Statement)
		alone bool
	}{
		"its lines, and their rights":      {func(*sealer.Statement) {}, true},
		"another right that a rule names":  {func(d *sealer.Statement) { d.Rights = append(d.Rights, sealer.SettlementRight{RightID: "rgh_b"}) }, false},
		"what has no price":                {func(d *sealer.Statement) { d.Unrated = []sealer.StatementUnrated{{RightID: "rgh_a"}} }, false},
		"a dispute":                        {func(d *sealer.Statement) { d.Excluded = []sealer.StatementExclusion{{DisputeID: "dsp_a"}} }, false},
		"a statement that was made before": {func(d *sealer.Statement) { d.Overlaps = []sealer.StatementOverlap{{StatementID: "stm_a"}} }, false},
	} {
		d := sealer.Statement{Lines: []sealer.StatementLine{{RightID: "rgh_a"}}, Rights: []sealer.SettlementRight{{RightID: "rgh_a"}}}
		tc.add(&d)
		require.Equal(t, tc.alone, showsLinesAlone(&d), name)
	}
}
