package statement

import "muniment.example/control/store"

// Tables lists this package's tables. Statements contain counterparties' names, which are no personal data.
var Tables = store.Tables{{Name: "statements", Public: []string{"reference", "void_reason"}}}
