package statement

import (
	"testing"

	"github.com/stretchr/testify/require"

	"muniment.example/sealer/settlement"
	"muniment.example/sealer/statement"
)

// TestPartsThatShowLinesAlone: the signed file of a statement for one payee is handed out only if it shows nothing of the
// tenant's other rights, disputes and statements.
func TestPartsThatShowLinesAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		add   func(*statement.Statement)
		alone bool
	}{
		"its lines, and their rights":      {func(*statement.Statement) {}, true},
		"another right that a rule names":  {func(d *statement.Statement) { d.Rights = append(d.Rights, settlement.Right{RightID: "rgh_b"}) }, false},
		"what has no price":                {func(d *statement.Statement) { d.Unrated = []statement.Unrated{{RightID: "rgh_a"}} }, false},
		"a dispute":                        {func(d *statement.Statement) { d.Excluded = []statement.Exclusion{{DisputeID: "dsp_a"}} }, false},
		"a statement that was made before": {func(d *statement.Statement) { d.Overlaps = []statement.Overlap{{StatementID: "stm_a"}} }, false},
	} {
		d := statement.Statement{Lines: []statement.Line{{RightID: "rgh_a"}}, Rights: []settlement.Right{{RightID: "rgh_a"}}}
		tc.add(&d)
		require.Equal(t, tc.alone, showsLinesAlone(&d), name)
	}
}
