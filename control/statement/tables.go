package statement

import "muniment/control/store"

// Tables are those of this package. A statement names counterparties, whose names are no persons'.
var Tables = store.Tables{{Name: "statements"}}
