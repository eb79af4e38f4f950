package proof

import "muniment/control/store"

// Tables are those of this package.
var Tables = store.Tables{
	{Name: "proof_packs"},
	{Name: "proof_turns"},
	{Name: "proof_heads", Outlives: "no log may ever sign another head"},
	{Name: "proof_roots", Outlives: "no log may ever sign two roots of one size"},
}
