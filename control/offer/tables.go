package offer

import "muniment/control/store"

// Tables are those of this package.
var Tables = store.Tables{{Name: "offers"}}
